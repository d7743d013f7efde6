package apiserver

import "github.com/tarnproject/tarn/apiserver/internal/kinds"

// Schemas enforces CustomResourceDefinitions for [Options.Schemas]. Package apiserver/crd
// implements it with the code of Kubernetes. It is an interface, so that programs without
// custom resources do not link that code.
type Schemas = kinds.Schemas

// Schema is the schema of one version of a custom resource.
type Schema = kinds.Schema
