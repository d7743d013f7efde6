package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tarnproject/tarn/internal/hostcheck"
)

// Guard decides who may use pages that reveal or cost more than metrics do.
//
// Without a token, the connection must come from this machine, as that of kubectl port-forward
// does, and the request must not come from a web page: its Host must be a loopback name, and its
// Origin, if any, too. Set a token behind a reverse proxy on the same machine.
//
// With a token, the request must have it, wherever it comes from.
type Guard struct {
	// Token is sent as "Authorization: Bearer TOKEN". Defaults to none.
	Token string
}

// Wrap returns a handler that passes on the requests that the guard allows. It rejects the others
// with 401 or 403.
func (g Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Token != "" {
			if !g.hasToken(r) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "this page requires a bearer token", http.StatusUnauthorized)
				return
			}
		} else if why := foreign(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g Guard) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes have the same length, so the time does not depend on the token.
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// foreign returns why a request is not from a program or user on this machine, or "".
func foreign(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !hostcheck.Loopback(host) {
		return "this page is available on this machine only, for example through kubectl port-forward; configure a token for other clients"
	}
	if !hostcheck.Trusted(r.Host, nil) {
		return "this page is available under a loopback address only"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !hostcheck.Trusted(u.Host, nil) {
			return "this page is not available to other origins"
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return "this page is not available to other sites"
	}
	return ""
}
