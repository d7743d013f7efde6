package tarn

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/informer"
)

// broken is an informer whose Run fails.
type broken struct {
	anyInformer
	err error
}

func (b broken) Name() string              { return "broken" }
func (b broken) Run(context.Context) error { return b.err }
func (b broken) Status() informer.Status   { return informer.Status{} }

func TestRunEndsWithTheMirrorThatFailed(t *testing.T) {
	c, err := Connect(WithConfig(&rest.Config{Host: "https://127.0.0.1:1"}))
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("panic: no such thing")
	id := identity{namespaces: "shop"}
	if _, err := c.claim(id, &declaration{}, &claim{}, func(m *shared) error {
		m.inf = broken{err: cause}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, cause) {
		t.Errorf("Run returned %v", err)
	}
}
