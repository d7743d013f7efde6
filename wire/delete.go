package wire

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// Propagation says how the objects that a deleted one owns are treated.
type Propagation string

// The values of Propagation.
const (
	Orphan     Propagation = "Orphan"     // they are kept
	Background Propagation = "Background" // they are deleted after the owner
	Foreground Propagation = "Foreground" // they are deleted before the owner
)

// DeleteOptions are the options of delete and deletecollection.
type DeleteOptions struct {
	// UID must be that of the object, so that a newer object of the same name is not
	// deleted. Defaults to any.
	UID object.UID
	// Version must be that of the object. Defaults to any.
	Version object.Version
	// Propagation says how owned objects are treated. Defaults to the resource's default.
	Propagation Propagation
	// GracePeriod is the time that a pod has to terminate, in seconds, rounded up; 0 kills
	// it immediately. Defaults to the object's own.
	GracePeriod *time.Duration
	// DryRun validates the request without deleting. Defaults to false.
	DryRun bool
}

// body returns the options as the API type.
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

// Delete deletes an object. It returns when the server has accepted the request; finalizers and a
// grace period may delay the deletion. Without UID or Version it is not retried after a lost
// connection, because it could delete a new object of the same name.
func (a *API[T]) Delete(ctx context.Context, key object.Key, opts DeleteOptions) error {
	_, err := opts.request(a.request(VerbDelete, key)).Do(ctx)
	return err
}

// DeleteReturning is [API.Delete] that also returns the server's answer. It is the zero Deletion if the
// answer cannot be read.
func (a *API[T]) DeleteReturning(ctx context.Context, key object.Key, opts DeleteOptions) (object.Deletion, error) {
	res, err := opts.request(a.request(VerbDelete, key)).Do(ctx)
	if err != nil {
		return object.Deletion{}, err
	}
	return res.Deletion(), nil
}

// DeleteCollection deletes the objects that sel selects. A namespaced resource needs the
// namespace, because the API cannot delete across namespaces.
func (a *API[T]) DeleteCollection(ctx context.Context, sel object.Selection, opts DeleteOptions) error {
	r := a.request(VerbDeleteCollection, object.Key{Namespace: sel.Namespace})
	if opts.UID != "" {
		r.fail("deletecollection takes no UID")
	}
	if !sel.Shard.IsZero() {
		r.fail("deletecollection takes no Shard: a server that does not shard would delete everything")
	}
	_, err := opts.request(r).Param("labelSelector", sel.Labels).Param("fieldSelector", sel.Fields).Do(ctx)
	return err
}
