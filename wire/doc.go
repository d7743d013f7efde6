// Package wire is a REST client for a Kubernetes API server.
//
//	client, err := wire.New(config, wire.Options{}) // config is client-go's *rest.Config
//	pods := wire.For(client, wire.MustOf[*corev1.Pod]())
//	pod, err := pods.Get(ctx, object.Key{Namespace: "shop", Name: "web"}, wire.GetOptions{})
//
// The types:
//
//   - [Client] sends requests to one server. [New] creates one from client-go's rest.Config,
//     [NewWithTransport] from a URL and an http.RoundTripper.
//   - [Resource] describes a resource: its group, version, plural and kind, the Go type of its
//     objects, and their encoding. [Of] knows built-in kinds, and types with a method
//     APIResource, by their Go type. [Custom], [Unstructured] and [Metadata] describe any other
//     resource. [Discovery] finds resources by name.
//   - [API] has the verbs of one resource on single objects, with the resource's Go type: Get,
//     Create, Update, Patch, Apply, Delete and DeleteCollection. [For] returns one.
//     [Subresource] has the verbs of a subresource with its own type: scale, eviction, token.
//   - [Request] is one request, for everything that API does not cover. [Result] is its
//     response.
//   - [Observer] is called around each attempt of a request, for metrics and tracing.
//   - [Error] is an error response of the server. [TransportError] means that there was no
//     usable response. Both name the [Call].
//
// Lists and watches are in package wire/stream, which decodes objects while they arrive:
//
//	list, page, err := stream.List(ctx, pods, object.ListOptions{})
//
// # Retries
//
// The client retries a request that the server rejected before it processed it (429 with
// Retry-After) and a request that never reached the server (connection refused). If the
// server may have processed the request (503 with Retry-After, a lost connection), the client
// retries it only if it is idempotent: reads, updates, server-side apply, and deletes with a
// precondition. [Retry] limits the number of retries and the delay.
//
// A [Limiter] limits the rate of requests. There is none by default. Several clients can share one.
//
// # Credentials
//
// Errors, warnings and logs contain neither query strings nor headers. The client replaces its
// own credentials, from the rest.Config or added by the transport, and everything that looks
// like a credential by a placeholder. [Client.Redact] does the same for other texts. A
// response that is not a Status is quoted only in part.
package wire
