// Package crd makes the embedded API server enforce CustomResourceDefinitions as
// kube-apiserver does.
//
//	server := apiserver.Start(t, apiserver.Options{Schemas: crd.Schemas()})
//
// With it, custom resources are pruned, defaulted and validated by their structural schema,
// including CEL rules and ratcheting; server-side apply merges lists by their list type; and
// kubectl explain describes them. Definitions themselves are validated too.
//
// It uses the packages of k8s.io/apiextensions-apiserver, which a program that does not
// import this package does not link. Definitions are validated once in a process, and
// schemas are compiled on first use.
package crd
