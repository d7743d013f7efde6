package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Client sends requests to one API server. It starts no goroutine of its own and
// holds nothing that has to be closed; connections belong to its transport. All
// methods may be called from any goroutine.
//
// It is one concrete type, not an interface with a double for tests: an
// http.RoundTripper is the seam, and a test that goes through it also tests what is
// sent.
type Client struct {
	base     *url.URL // scheme, host and path prefix; userinfo is sent as basic auth
	http     *http.Client
	opts     Options
	warnings *warnings
	secrets  *secrets
	gzips    *gzipPool
}

// New returns a client for the server of a rest.Config, which brings the address,
// TLS, credentials and their plugins, proxies and impersonation.
//
// The transport is client-go's own, so that what client-go knows of rotated
// certificates, tokens and authorities holds here too; it is shared with all that
// use the same TLS settings in this process, and pings idle HTTP/2 connections every
// 30 s. For a config that would use http.DefaultTransport, which does not ping, a
// transport is made that does, as the Options say. A transport that the config
// brings along is used as it is. A token file is read once a minute, as by client-go,
// and also when the server has refused what was in it.
//
// Of the config's other settings Timeout is that of one attempt, RateLimiter and a
// QPS above 0 limit as they do in client-go (there is no limit when neither is set),
// and content types are ignored: the resource decides them.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("wire: no rest.Config; load one with clientcmd.BuildConfigFromFlags or rest.InClusterConfig")
	}
	own := rest.CopyConfig(cfg)
	own.APIPath, own.GroupVersion = "", nil
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, errors.New("wire: the Host of the rest.Config is neither a URL nor host:port") // the cause quotes it, with its password
	}
	opts = optionsFrom(own, opts)
	if err := opts.Valid(); err != nil {
		return nil, err
	}
	if plain, err := usesDefaultTransport(own); err != nil {
		return nil, fmt.Errorf("wire: the rest.Config: %w", err)
	} else if plain {
		own.Transport = NewTransport(nil, opts)
	}
	known := append(configured(own), readRefusedTokensAgain(own))
	rt, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("wire: the transport of the rest.Config: %w", err)
	}
	c, err := NewWithTransport(base, rt, opts)
	if err != nil {
		return nil, err
	}
	c.secrets.add(known...)
	return c, nil
}

// NewWithTransport returns a client for the server at base, which may have a path
// that goes before all others. The transport has to bring credentials; its settings
// are its owner's. A nil transport stands for NewTransport(nil, opts).
func NewWithTransport(base *url.URL, rt http.RoundTripper, opts Options) (*Client, error) {
	switch {
	case base == nil:
		return nil, errors.New("wire: no server URL")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("wire: the server URL has the scheme %q; want http or https", base.Scheme)
	case base.Host == "":
		return nil, errors.New("wire: the server URL has no host")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("wire: the server URL has a query or a fragment; want scheme, host and path only")
	}
	if err := opts.Valid(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if rt == nil {
		rt = NewTransport(nil, opts)
	}
	own := *base
	own.Path, own.RawPath = strings.TrimSuffix(own.Path, "/"), strings.TrimSuffix(own.RawPath, "/")
	known := &secrets{}
	if password, ok := own.User.Password(); ok {
		known.add(basic(own.User.Username(), password)...)
	}
	return &Client{
		base: &own,
		http: &http.Client{
			Transport: rt,
			// A transport adds credentials to whatever it sends, so a redirect to
			// another host would give them away.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		opts:     opts,
		warnings: newWarnings(opts, known),
		secrets:  known,
		gzips:    &gzipPool{},
	}, nil
}

// Host returns the server's host and port.
func (c *Client) Host() string { return c.base.Host }

// CloseIdleConnections closes the connections of the transport that nobody uses at
// the moment. Clients that share the transport just dial again.
func (c *Client) CloseIdleConnections() {
	rt := c.http.Transport
	for {
		if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
			return
		}
		wrapper, ok := rt.(utilnet.RoundTripperWrapper) // client-go's are
		if !ok {
			return
		}
		rt = wrapper.WrappedRoundTripper()
	}
}

// optionsFrom fills what the Options leave open from the config.
func optionsFrom(cfg *rest.Config, opts Options) Options {
	if opts.UserAgent == "" {
		opts.UserAgent = cfg.UserAgent
	}
	if opts.Timeout == 0 {
		opts.Timeout = cfg.Timeout
	}
	if opts.Limiter == nil {
		switch {
		case cfg.RateLimiter != nil:
			opts.Limiter = cfg.RateLimiter
		case cfg.QPS > 0:
			burst := cfg.Burst
			if burst <= 0 {
				burst = rest.DefaultBurst
			}
			opts.Limiter = NewLimiter(float64(cfg.QPS), burst)
		}
	}
	if opts.Warnings == nil {
		if h := cfg.WarningHandlerWithContext; h != nil {
			opts.Warnings = func(w Warning) { h.HandleWarningHeaderWithContext(context.Background(), w.Code, w.Agent, w.Text) }
		} else if h := cfg.WarningHandler; h != nil {
			opts.Warnings = func(w Warning) { h.HandleWarningHeader(w.Code, w.Agent, w.Text) }
		}
	}
	if cfg.DisableCompression {
		opts.DisableCompression = true
	}
	return opts
}
