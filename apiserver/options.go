package apiserver

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configures a server. The zero value is usable.
type Options struct {
	// Address is the host and port to listen on; port 0 picks a free one, as in
	// "127.0.0.1:0". Defaults to none: the server is reachable in memory only.
	Address string
	// AllowedHosts lists additional host names, without ports, by which clients may reach
	// Address. Requests with any other Host header get 403, which protects against DNS
	// rebinding by web pages. Localhost, loopback addresses and the host of Address are
	// always allowed.
	AllowedHosts []string
	// TLS serves HTTPS and HTTP/2 on Address with a generated certificate, which the
	// configs returned by the server trust. Defaults to plain HTTP.
	TLS bool
	// HTTP2 uses HTTP/2 without TLS for in-memory connections. Address always supports it.
	// Defaults to HTTP/1.1.
	HTTP2 bool
	// History is the number of changes kept for watches and exact lists. Older versions get
	// 410. Defaults to 10,000.
	History int
	// HistoryBytes limits the encoded size of the objects in the history. They occupy a few
	// times that in memory. Defaults to 64 MiB.
	HistoryBytes int
	// Bookmarks is the interval of bookmarks in watches that allow them. Defaults to one
	// minute.
	Bookmarks time.Duration
	// NoBookmarks disables bookmarks, except the one that ends a streaming list. Defaults
	// to false.
	NoBookmarks bool
	// NoStreamingLists rejects sendInitialEvents with 422, like servers before 1.32.
	// Defaults to false.
	NoStreamingLists bool
	// NoSharding ignores shardSelector, like servers without the feature gate ShardedListAndWatch.
	// Defaults to false.
	NoSharding bool
	// GoneAsStatus responds to a watch from before the history with HTTP status 410.
	// Defaults to an ERROR event in a 200 response.
	GoneAsStatus bool
	// OldServer emulates early servers: 410 has the reason Gone, a resource version in the
	// future is reported only in the error message, and DELETED events carry the object's
	// last version. Defaults to false.
	OldServer bool
	// AnyNamespace allows objects in namespaces that do not exist. Defaults to rejecting
	// them with 404.
	AnyNamespace bool
	// Schemas enforces the schemas of CustomResourceDefinitions and of the definitions
	// themselves; package apiserver/crd has the implementation. Defaults to none: objects
	// are stored as clients send them, and lists are atomic for server-side apply.
	Schemas Schemas
	// Strict applies kube-apiserver's defaults, validation and warnings to built-in kinds; package
	// apiserver/builtin lists them. It serves only kinds with a stable version,
	// creates the Service "kubernetes" with its endpoints, and adds the
	// finalizers of foreground and orphan deletion even without CollectGarbage. Defaults to
	// storing objects as clients send them, which allows incomplete ones in tests.
	Strict bool
	// CollectGarbage deletes objects whose owners no longer exist, and completes foreground
	// and orphan deletion. Defaults to false.
	CollectGarbage bool
	// KeepNamespaces leaves deleted namespaces terminating, with their content. A client that
	// removes the last finalizer with the subresource finalize removes them. Defaults to
	// deleting both, as the namespace controller does.
	KeepNamespaces bool
	// NoRoleAggregation evaluates ClusterRoles with an aggregation rule without the rules of the
	// roles that they select. Defaults to adding these, as the aggregation controller does.
	NoRoleAggregation bool
	// NoControllers is for tests that were written for envtest, where kube-controller-manager
	// does not run: nothing is deleted except what clients delete. It has the effect of KeepNamespaces
	// and NoRoleAggregation, ignores CollectGarbage, and adds the finalizers that a controller
	// would remove: those of foreground and orphan deletion, and of volumes and claims in use.
	// A pod without a grace period is removed 10 ms after it is marked for deletion.
	// Defaults to false.
	NoControllers bool
	// RBAC authenticates clients and evaluates the stored roles and bindings. The configs of
	// the server itself are in the group system:masters and may do everything;
	// [Server.ConfigFor] and [Server.ServiceAccountConfig] return others. Defaults to
	// allowing everything.
	RBAC bool
	// Admin serves fault injection and compaction under /tarn/. Defaults to false.
	Admin bool
	// Logger logs every request at debug level. Defaults to discarding.
	Logger *slog.Logger
	// Seed makes UIDs and generated names reproducible. Defaults to a random seed.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.NoControllers {
		o.CollectGarbage, o.KeepNamespaces, o.NoRoleAggregation = false, true, true
	}
	if o.History <= 0 {
		o.History = 10_000
	}
	if o.HistoryBytes <= 0 {
		o.HistoryBytes = 64 << 20
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
