package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tarnproject/tarn/internal/hostcheck"
)

// Guard decides who may use pages that reveal or cost more than metrics do.
//
// On a server that listens on a loopback address only, a request without a token must come from this
// machine, as that of kubectl port-forward does, and not from a web page: its Host must be a loopback
// name, and its Origin, if any, too.
//
// On any other server a request must have a token: a connection from this machine may be that of a
// proxy, such as the sidecar of a service mesh, that passes on requests of others. [Server] generates
// a token for guards without one, and logs it when a request first lacks it. In a server of your own,
// set Token or use [OnLoopback]; otherwise the guard rejects all requests.
type Guard struct {
	// Token is sent as "Authorization: Bearer TOKEN" or as the password of basic authentication. A
	// browser that has sent it gets a cookie, which replaces it for 12 hours. With a token, requests
	// may come from anywhere. Defaults to none.
	Token string
}

// Wrap returns a handler that passes on the requests that the guard allows. It rejects the others
// with 401 or 403.
func (g Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(listeningKey{}).(*listening)
		token := g.Token
		if token == "" && at != nil {
			token = at.token
		}
		switch {
		case token != "":
			if !signedIn(w, r, token) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				if r.Header.Get("Sec-Fetch-Mode") == "navigate" { // the browser asks for a password
					w.Header().Set("WWW-Authenticate", `Basic realm="tarn"`)
				}
				if g.Token == "" {
					at.reveal()
				}
				http.Error(w, "this page requires a bearer token", http.StatusUnauthorized)
				return
			}
		case at == nil || !at.loopback:
			http.Error(w, "this page requires a token, because the server may be reachable from other machines; the program has to set console.Guard.Token, or use console.OnLoopback", http.StatusForbidden)
			return
		default:
			if why := foreign(r); why != "" {
				http.Error(w, why, http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// listening is what guards have to know about the server of a request.
type listening struct {
	loopback bool   // it listens on a loopback address only
	token    string // for guards without one; none on loopback, and if there is no logger
	log      *slog.Logger
	logged   sync.Once
}

type listeningKey struct{}

// listeningOn describes a server that listens on an address and logs to log.
func listeningOn(address net.Addr, log *slog.Logger) *listening {
	at := &listening{log: log}
	host, _, err := net.SplitHostPort(address.String())
	if at.loopback = err == nil && hostcheck.Loopback(host); !at.loopback && log != nil {
		at.token = rand.Text()
	}
	return at
}

// reveal logs the generated token once, when a request for a page that requires it lacks it.
func (at *listening) reveal() {
	at.logged.Do(func() {
		at.log.Warn("console: a page was requested that requires a token, because the server does not listen on a loopback address; this one is valid until the program ends, unless console.Guard.Token is set",
			"console-token", at.token)
	})
}

// OnLoopback declares that the server of h listens on a loopback address only, so that a [Guard]
// without a token allows requests from this machine. [Server] needs no such declaration. Do not use
// it behind a proxy that passes on requests from other machines.
func OnLoopback(h http.Handler) http.Handler {
	at := &listening{loopback: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := r.Context().Value(listeningKey{}).(*listening); !known { // a Server knows better
			r = r.WithContext(context.WithValue(r.Context(), listeningKey{}, at))
		}
		h.ServeHTTP(w, r)
	})
}

// cookieLife is how long a cookie replaces the token.
const cookieLife = 12 * time.Hour

// signedIn reports whether a request has the token, or the cookie of a browser that has had it.
func signedIn(w http.ResponseWriter, r *http.Request, token string) bool {
	// The cookie is not the token, because browsers send it to all ports of a host. It begins with when it
	// expires, in 8 digits.
	sign := func(text string) string {
		mac := hmac.New(sha256.New, []byte(token))
		mac.Write([]byte("cookie of the console" + text))
		return hex.EncodeToString(mac.Sum(nil))
	}
	name := "tarn-" + sign("")[:8]
	if bearer(r, token) {
		until := fmt.Sprintf("%08x", time.Now().Add(cookieLife).Unix())
		http.SetCookie(w, &http.Cookie{Name: name, Value: until + sign(until), MaxAge: int(cookieLife.Seconds()),
			Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		return true
	}
	// Browsers add what follows to the requests of any site.
	if fromAnotherSite(r) {
		return false
	}
	if _, password, _ := r.BasicAuth(); equal(password, token) {
		return true
	}
	cookie, err := r.Cookie(name)
	if err != nil || len(cookie.Value) < 8 {
		return false
	}
	until := cookie.Value[:8]
	expires, err := strconv.ParseInt(until, 16, 64)
	return err == nil && time.Now().Unix() < expires && equal(cookie.Value[8:], sign(until))
}

// bearer reports whether a request has a token in its header.
func bearer(r *http.Request, token string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && equal(got, token)
}

// equal compares hashes, which have the same length, so that the time does not depend on the texts.
func equal(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return hmac.Equal(a[:], b[:])
}

// fromAnotherSite reports whether a page of another origin makes the request.
func fromAnotherSite(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return true
	}
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host)
}

// foreign returns why a request is not from a program or user on this machine, or "".
func foreign(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !hostcheck.Loopback(host) {
		return "this page is available on this machine only, for example through kubectl port-forward; configure a token for other clients"
	}
	if !hostcheck.Trusted(r.Host, nil) {
		return "this page is available under a loopback address only"
	}
	if fromAnotherSite(r) {
		return "this page is not available to other sites"
	}
	return ""
}
