package apiserver

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configure a server. The zero value works.
type Options struct {
	// Address is the host and port to listen on, such as "127.0.0.1:0" for any port.
	// Defaults to none: the server is reached in memory only.
	Address string
	// AllowedHosts are the names by which clients may reach Address, without ports. Requests
	// with another Host are refused with 403, so that no web page can reach the server by
	// a name of its own that resolves to this machine. Defaults to localhost, loopback
	// addresses and the host of Address, which are always allowed.
	AllowedHosts []string
	// TLS serves HTTPS with a certificate that is made for the occasion and trusted by
	// the config that the server hands out. HTTP/2 is then negotiated. It concerns
	// Address only. Defaults to plain HTTP.
	TLS bool
	// HTTP2 makes the connections in memory speak HTTP/2, without TLS. Those to Address
	// may always. Defaults to HTTP/1.1.
	HTTP2 bool
	// History is how many changes are kept for watches and exact lists; who asks for
	// more is told 410. Defaults to 10,000.
	History int
	// Bookmarks is how often a watch that allows them gets a bookmark. Defaults to one
	// minute.
	Bookmarks time.Duration
	// NoBookmarks leaves them out, except the one that ends a streaming list. Defaults to
	// sending them.
	NoBookmarks bool
	// WatchTimeout ends a watch that named no timeout. Defaults to a random time between
	// 30 and 60 minutes for each watch.
	WatchTimeout time.Duration
	// NoStreamingLists refuses sendInitialEvents with 422, as servers before 1.32 do.
	// Defaults to serving them.
	NoStreamingLists bool
	// GoneAsStatus answers a watch that is too old with the HTTP status 410. Defaults to
	// an ERROR event inside a 200.
	GoneAsStatus bool
	// OldServer speaks as servers of long ago: 410 has the reason Gone, a version from
	// the future is told by the message alone, and DELETED carries the version that the
	// object had. Defaults to the present ways.
	OldServer bool
	// EveryVersion serves every version of the built-in kinds, each stored by itself.
	// Defaults to the most stable version of each kind.
	EveryVersion bool
	// AnyNamespace lets objects be created in namespaces that do not exist. Defaults to
	// refusing them with 404.
	AnyNamespace bool
	// CollectGarbage deletes objects whose owners are all gone, and knows foreground and
	// orphan deletion. Defaults to leaving dependents alone.
	CollectGarbage bool
	// Admin serves faults and compaction below /tarn/. Defaults to not serving it.
	Admin bool
	// Logger is told of every request at debug level. Defaults to discarding.
	Logger *slog.Logger
	// Seed fixes the UIDs and generated names, so that a run can be repeated. Defaults
	// to a random one.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.History <= 0 {
		o.History = 10_000
	}
	if o.Bookmarks <= 0 {
		o.Bookmarks = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o
}
