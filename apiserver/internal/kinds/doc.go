// Package kinds has the kinds that the server serves: [Kind] is one version of a resource, and
// [Catalog] has all of them. Built-in kinds come from client-go's scheme and CustomResourceDefinition, others from a
// [Definition] with an optional [Schema].
//
// [Record] is one version of one object of a kind, as storage keeps it. A record is stored in one
// version of its resource; a Kind presents it in its own. Lists of built-in kinds with a property, such as
// a scale, are here, and their conversions and selectable fields. What else differs for one of them is in
// package special, and defaults and validation are in package apiserver/builtin.
package kinds
