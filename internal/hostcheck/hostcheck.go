// Package hostcheck decides which Host headers a server without authentication accepts.
//
// Such a server trusts its listener: only this machine can connect. A web page in a browser
// on this machine breaks that trust when its own host name resolves to a loopback address
// (DNS rebinding). The browser then still sends the page's name as Host, so a server that
// accepts only the names of its machine refuses these requests. Requests that a page sends
// to the right name from another origin are a different matter: [net/http.CrossOriginProtection]
// refuses those that change something.
package hostcheck

import (
	"net"
	"slices"
	"strings"
)

// Loopback reports whether a host, without a port, is reachable from this machine only:
// "localhost" or a loopback IP address.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Listening returns the hosts that a server on an address accepts besides loopback: those
// that its user allowed, and the host of the address unless that stands for all addresses.
// The result shares nothing with allowed.
func Listening(address string, allowed []string) []string {
	hosts := slices.Clone(allowed)
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	}
	return hosts
}

// Reachable returns the host and port under which a client on this machine reaches a server that
// was asked to listen on address and got bound: a host that [Trusted] accepts for the hosts of
// [Listening]. It is the host of the address, or a loopback address of the same family where the
// address stands for all.
func Reachable(address string, bound net.Addr) string {
	_, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return bound.String()
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// Trusted reports whether a Host header, with or without a port, names this machine by a
// loopback name or by one of the hosts, which have no ports. Case and a final dot do not matter.
func Trusted(header string, hosts []string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = header
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	return Loopback(host) || slices.ContainsFunc(hosts, func(h string) bool {
		h = strings.TrimSuffix(strings.Trim(h, "[]"), ".")
		return h != "" && strings.EqualFold(h, host)
	})
}
