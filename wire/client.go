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

// Client sends requests to one API server. It starts no goroutines and need not be closed; its
// transport owns the connections. All methods are safe for concurrent use.
//
// There is no interface for it, because tests replace the http.RoundTripper and so also test
// what is sent.
type Client struct {
	base     *url.URL // scheme, host and path prefix; user and password are sent as basic auth
	http     *http.Client
	opts     Options
	warnings *warnings
	secrets  *secrets
	gzips    *gzipPool
}

// New returns a client for the server of a rest.Config, which has the address, TLS settings,
// credentials and credential plugins, proxies and impersonation.
//
// It uses client-go's transport, which handles rotated certificates, tokens and CAs, pings idle
// HTTP/2 connections every 30 s, and is shared by all clients of the process with the same TLS
// settings. If client-go would use http.DefaultTransport, which sends no pings, New uses
// [NewTransport] instead. A transport that the config sets is used unchanged. A token file is
// read every minute, as in client-go, and also after the server has rejected its token.
//
// The config's Timeout applies to one attempt. RateLimiter and a QPS above 0 limit the rate as
// in client-go; without them there is no limit. Content types are ignored, because the resource
// determines them.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("wire: no rest.Config; load one with clientcmd.BuildConfigFromFlags or rest.InClusterConfig")
	}
	own := rest.CopyConfig(cfg)
	own.APIPath, own.GroupVersion = "", nil
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, errors.New("wire: the Host of the rest.Config is neither a URL nor host:port") // the cause quotes it, including a password
	}
	opts = optionsFrom(own, opts)
	if err := opts.valid(); err != nil {
		return nil, err
	}
	if plain, err := usesDefaultTransport(own); err != nil {
		return nil, fmt.Errorf("wire: invalid rest.Config: %w", err)
	} else if plain {
		own.Transport = NewTransport(nil)
	}
	known := append(configured(own), rereadRejectedToken(own))
	rt, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("wire: create the transport of the rest.Config: %w", err)
	}
	c, err := NewWithTransport(base, rt, opts)
	if err != nil {
		return nil, err
	}
	c.secrets.add(known...)
	return c, nil
}

// NewWithTransport returns a client for the server at base. A path of base is the prefix of all
// request paths. The transport adds the credentials. A nil transport means NewTransport(nil).
func NewWithTransport(base *url.URL, rt http.RoundTripper, opts Options) (*Client, error) {
	switch {
	case base == nil:
		return nil, errors.New("wire: no server URL")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("wire: the server URL has the scheme %q; use http or https", base.Scheme)
	case base.Host == "":
		return nil, errors.New("wire: the server URL has no host")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("wire: the server URL has a query or a fragment; use scheme, host and path only")
	}
	if err := opts.valid(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if rt == nil {
		rt = NewTransport(nil)
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
			// The transport adds credentials to every request, so following a
			// redirect would send them to another host.
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

// CloseIdleConnections closes the idle connections of the transport. Other clients that share
// the transport dial again when they need to.
func (c *Client) CloseIdleConnections() {
	rt := c.http.Transport
	for {
		if t, ok := rt.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
			return
		}
		wrapper, ok := rt.(utilnet.RoundTripperWrapper) // client-go's transports implement it
		if !ok {
			return
		}
		rt = wrapper.WrappedRoundTripper()
	}
}

// optionsFrom sets zero fields of the options from the config.
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
