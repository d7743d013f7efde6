// Package wire speaks HTTP with a Kubernetes API server: bytes at one end, typed
// values at the other.
//
// The nouns, in the order in which a reader meets them:
//
//   - [Client] knows a server: its address, its transport, its retry rules. [New]
//     makes one from client-go's rest.Config, [NewWithTransport] from a URL and an
//     http.RoundTripper.
//   - [Resource] says what a resource is called, where it is served and which Go
//     type its objects have. [Of] knows the built-in kinds by their Go type;
//     [Custom], [Unstructured] and [Metadata] describe any other; [Discovery] asks
//     the server.
//   - [API] is a client and a resource: Get, List, Watch, Create, Update, Patch,
//     Apply, Delete and the rest, with the resource's own type. [For] makes one.
//     [Subresource] is a part with a type of its own: scale, eviction, token.
//   - [Source] lists and watches a selection for a mirror of it: bodies are decoded
//     while they arrive, and what the mirror holds already is not decoded.
//   - [Request] is one request by verb and path, for whatever the verbs do not
//     cover. [Result] is its answer.
//   - [Error] is a refusal by the server, [TransportError] says that there was no
//     answer. Both name the [Call] that failed.
//
// # What is retried
//
// A request that the server refused before it looked at it (429 with Retry-After),
// or that never reached the server (connection refused), is sent again. A request
// that may have been carried out (503 with Retry-After, a connection that broke) is
// sent again only when doing it twice is doing it once: reads, updates, server-side
// apply, and deletes with a precondition. [Retry] bounds how often and how long. A
// [Source] leaves retries to its user, unless told otherwise.
//
// Across requests, a [Limiter] spaces them and a [BackoffManager] holds them back
// while a server is overloaded. Both are off by default, and may be shared by
// several clients.
//
// # What is not shown
//
// Errors, warnings and logs hold neither query strings nor headers. The client's own
// credentials are blotted out of every text, in whatever form a server or a proxy repeats
// them: those of the rest.Config and those that the transport sends. So is what looks like
// a credential. Bodies that are not a Status are cut short.
package wire
