package tarn

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// Audit compares every mirror with the server at one exact version: each object's key, UID and
// version. It returns the results by the mirrors' names, with the errors of those that could not be
// compared, such as one that the server forbids to list. It costs the server a metadata-only list of
// each mirror, in pages. See [WithAudit] for audits on a period.
func (c *Cluster) Audit(ctx context.Context) (map[string]informer.Audit, error) {
	results := map[string]informer.Audit{}
	var failed []error
	for _, m := range c.declared() {
		result, err := c.audit(ctx, m)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		results[m.name] = result
	}
	return results, errors.Join(failed...)
}

// Audit compares the mirror with the server; see [Cluster.Audit].
func (m *Mirror[T]) Audit(ctx context.Context) (informer.Audit, error) {
	ctx, end := m.whileOpen(ctx)
	defer end()
	return m.cluster.audit(ctx, m.shared)
}

func (c *Cluster) audit(ctx context.Context, m *shared) (informer.Audit, error) {
	list, err := c.identities(m)
	if err != nil {
		return informer.Audit{}, fmt.Errorf("%s: audit: %w", m.name, err)
	}
	result, err := m.inf.Audit(ctx, list)
	for _, d := range result.Differences {
		c.opts.logger.Error("a mirror differs from the server", "mirror", m.name, "key", d.Key, "mirror-has", d.Mirror, "server-has", d.Server)
	}
	return result, err
}

// identities returns what lists the identities of what a mirror selects.
func (c *Cluster) identities(m *shared) (informer.ListFunc, error) {
	source, err := stream.NewSource(wire.For(c.client, wire.Metadata(m.id.resource)), object.Selection{}, stream.Options{Lazy: true})
	return func(ctx context.Context, opts object.ListOptions, each func(object.Key, informer.Identity) error) (object.Page, error) {
		intake := &object.Intake[*metav1.PartialObjectMetadata]{Shard: opts.Shard}
		return source.List(ctx, opts, intake, func(item object.Item[*metav1.PartialObjectMetadata]) error {
			if item.Outside {
				return nil
			}
			return errors.Join(item.Err, each(item.Key, informer.Identity{UID: item.UID, Version: item.Version}))
		})
	}, err
}

// auditEvery audits all mirrors once per period.
func (c *Cluster) auditEvery(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			within, cancel := context.WithTimeout(ctx, period)
			if _, err := c.Audit(within); err != nil && ctx.Err() == nil {
				c.opts.logger.Warn("mirrors could not be compared with the server", "error", err)
			}
			cancel()
		case <-ctx.Done():
			return
		}
	}
}
