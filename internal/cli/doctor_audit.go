package cli

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

// audit mirrors the metadata of the objects and compares the mirror with the server.
func (p *examination) audit(ctx context.Context, config *rest.Config, log *slog.Logger) {
	const check = "audit"
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cluster, err := tarn.Connect(tarn.WithConfig(config), tarn.WithLogger(log))
	if err != nil {
		p.fail(check, err)
		return
	}
	scope := []tarn.Option{tarn.Matching(p.sel.Labels), tarn.MatchingFields(p.sel.Fields)}
	if p.sel.Namespace != "" {
		scope = append(scope, tarn.InNamespaces(p.sel.Namespace))
	}
	mirror, err := tarn.MirrorResource(cluster, wire.Metadata(p.res), scope...)
	if err != nil {
		p.fail(check, err)
		return
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cluster.Run(running) }()
	result, err := mirror.Audit(ctx)
	stop()
	<-ended
	switch {
	case err != nil:
		p.fail(check, err)
	case result.Count() == 0:
		p.find(check, fine, counted(result.Objects, "object")+" as on the server, at one exact version", "")
	default:
		p.find(check, broken, fmt.Sprintf("%d of %s differ, such as %s", result.Count(), counted(result.Objects, "object"), result.Differences[0]),
			"a proxy or an aggregated API server may answer lists and watches from different states; otherwise report this as a defect of Tarn")
	}
}
