// Command tarn-apiserver serves the embedded Kubernetes API, with the schemas of custom resources
// and stand-ins for the controllers of a cluster. tarn apiserver runs it.
package main

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver/crd"
	"github.com/tarnproject/tarn/apiserver/workloads"
	"github.com/tarnproject/tarn/internal/cli"
)

func main() {
	cli.APIServer(cli.ServerParts{Schemas: crd.Schemas(), Workloads: standIns})
}

func standIns(cfg *rest.Config, log *slog.Logger) (interface{ Run(context.Context) error }, error) {
	return workloads.New(cfg, workloads.Options{Logger: log})
}
