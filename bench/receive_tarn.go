package main

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// tarn receives with package wire and default options.
type tarn[T metav1.Object] struct {
	replay replay
	source *stream.Source[T]
}

func newTarn(r replay) receiver {
	client, err := wire.New(r.config(), wire.Options{})
	check(err)
	if r.Resource == releaseResource && r.Typed {
		return newTarnOf(client, wire.MustOf[*crds.Release](), r)
	}
	if r.Resource == releaseResource {
		return newTarnOf(client, wire.Unstructured(crds.Resource), r)
	}
	pods := wire.MustOf[*corev1.Pod]()
	if r.Encoding == jsonEncoding {
		pods = pods.Encoded(wire.JSON)
	}
	return newTarnOf(client, pods, r)
}

func newTarnOf[T metav1.Object](client *wire.Client, res wire.Resource[T], r replay) receiver {
	var opts stream.Options
	if r.Drop {
		opts.Drop = []object.FieldPath{object.ManagedFields}
	}
	source, err := stream.NewSource(wire.For(client, res), object.Selection{}, opts)
	check(err)
	return &tarn[T]{r, source}
}

func (t *tarn[T]) early() bool { return true }

// intake returns the Intake for the source.
func (t *tarn[T]) intake() *object.Intake[T] {
	if !t.replay.Held {
		return nil
	}
	return &object.Intake[T]{Held: func(object.Key, object.UID, object.Version) bool { return true }}
}

// take passes on an item.
func (t *tarn[T]) take(item object.Item[T], got func(arrived)) error {
	if item.Err != nil {
		return item.Err
	}
	if item.Held != t.replay.Held {
		return errors.New("an object was decoded that is held, or the other way round")
	}
	a := arrived{key: item.Key, uid: string(item.UID), version: string(item.Version)}
	if !item.Held {
		a.object = item.Object
	}
	got(a)
	return nil
}

func (t *tarn[T]) all(ctx context.Context, got func(arrived)) error {
	if t.replay.Way == byStream {
		return t.stream(ctx, got)
	}
	opts := object.ListOptions{}
	if t.replay.Way == byPages {
		opts.Limit = pageSize
	}
	for {
		page, err := t.source.List(ctx, opts, t.intake(), func(item object.Item[T]) error { return t.take(item, got) })
		if err != nil || page.Continue == "" {
			return err
		}
		opts.Continue = page.Continue
	}
}

func (t *tarn[T]) stream(ctx context.Context, got func(arrived)) error {
	s, err := t.source.Watch(ctx, object.WatchOptions{
		InitialEvents: true, Bookmarks: true, Match: object.NotOlderThan,
	}, t.intake())
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		events, err := s.Next()
		if err != nil {
			return err
		}
		for _, ev := range events {
			switch {
			case ev.Err != nil:
				return ev.Err
			case ev.InitialEnd:
				return nil
			}
			if err := t.take(ev.Item, got); err != nil {
				return err
			}
		}
	}
}

func (t *tarn[T]) events(ctx context.Context, got func(arrived)) error {
	s, err := t.source.Watch(ctx, object.WatchOptions{Version: "1", Bookmarks: true}, t.intake())
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		events, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, ev := range events {
			if ev.Err != nil {
				return ev.Err
			}
			if err := t.take(ev.Item, got); err != nil {
				return err
			}
		}
	}
}
