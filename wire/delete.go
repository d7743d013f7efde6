package wire

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// Propagation says what becomes of the objects that a deleted one owns.
type Propagation string

// The ways of propagation.
const (
	Orphan     Propagation = "Orphan"     // they stay
	Background Propagation = "Background" // they are deleted afterwards
	Foreground Propagation = "Foreground" // they are deleted first
)

// DeleteOptions are those of delete and deletecollection.
type DeleteOptions struct {
	// UID must be that of the object, so that a later one of the same name is
	// spared. Defaults to any.
	UID object.UID
	// Version must be that of the object. Defaults to any.
	Version object.Version
	// Propagation is what becomes of owned objects. Defaults to what the resource
	// does by itself.
	Propagation Propagation
	// GracePeriod is how long a pod may take to end; 0 is at once. It is counted in
	// seconds, rounded up. Defaults to what the object says.
	GracePeriod *time.Duration
	// DryRun goes through everything but does not delete. Defaults to false.
	DryRun bool
}

// body returns the options as the API spells them.
func (o DeleteOptions) body() (*metav1.DeleteOptions, error) {
	d := &metav1.DeleteOptions{}
	d.Kind, d.APIVersion = "DeleteOptions", "v1"
	if o.UID != "" || o.Version != "" {
		d.Preconditions = &metav1.Preconditions{}
		if o.UID != "" {
			d.Preconditions.UID = &o.UID
		}
		if o.Version != "" {
			version := string(o.Version)
			d.Preconditions.ResourceVersion = &version
		}
	}
	if o.Propagation != "" {
		p := metav1.DeletionPropagation(o.Propagation)
		d.PropagationPolicy = &p
	}
	if o.GracePeriod != nil {
		if *o.GracePeriod < 0 {
			return nil, errors.New("DeleteOptions.GracePeriod is negative")
		}
		s := int64((*o.GracePeriod + time.Second - 1) / time.Second)
		d.GracePeriodSeconds = &s
	}
	if o.DryRun {
		d.DryRun = []string{metav1.DryRunAll}
	}
	return d, nil
}

func (o DeleteOptions) request(r *Request) *Request {
	d, err := o.body()
	if err != nil {
		r.fail("%w", err)
		return r
	}
	data, err := json.Marshal(d)
	if err != nil {
		r.fail("%w", err)
	}
	if o.UID != "" || o.Version != "" {
		r.Idempotent()
	}
	return r.Body(typeJSON, data).Accept(typeJSON)
}

// Delete asks for an object to be deleted. It returns when the server has accepted
// that; the object is gone once its finalizers and its grace period are done. A
// delete without UID or Version is not sent again when its connection breaks: there
// could be a new object of that name.
func (a *API[T]) Delete(ctx context.Context, key object.Key, opts DeleteOptions) error {
	_, err := opts.request(a.request(VerbDelete, key)).Do(ctx)
	return err
}

// DeleteCollection deletes what sel selects. A namespaced resource needs the
// namespace; nothing deletes across namespaces at once.
func (a *API[T]) DeleteCollection(ctx context.Context, sel object.Selection, opts DeleteOptions) error {
	r := a.request(VerbDeleteCollection, object.Key{Namespace: sel.Namespace})
	if opts.UID != "" {
		r.fail("a collection has no UID")
	}
	_, err := opts.request(r).Param("labelSelector", sel.Labels).Param("fieldSelector", sel.Fields).Do(ctx)
	return err
}
