// Package kinds has the kinds that the server serves: [Kind] is one version of a resource, and
// [Catalog] has all of them. Built-in kinds come from client-go's scheme, others from a
// CustomResourceDefinition ([Definition]) with an optional [Schema].
//
// [Record] is one version of one object of a kind, as storage keeps it. A record is stored in one
// version of its resource; a Kind presents it in its own. What the generic path must know of single
// built-in kinds is here too: their conversions, initial status, generations and selectable fields.
// Their defaults and validation are in package apiserver/builtin.
package kinds
