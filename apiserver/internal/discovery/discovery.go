// Package discovery describes what a server has. [Discovery] serves the groups and resources of a catalog, in
// the older and in the aggregated form, their OpenAPI documents and the version.
package discovery

import (
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/response"
)

// Discovery serves what the server has: groups, resources, OpenAPI documents and its version.
type Discovery struct {
	catalog *kinds.Catalog
	codecs  *codec.Codecs
	out     *response.Responder
}

// New returns the discovery of a catalog.
func New(catalog *kinds.Catalog, codecs *codec.Codecs, out *response.Responder) *Discovery {
	return &Discovery{catalog, codecs, out}
}
