package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func key(name string) object.Key { return object.Key{Namespace: "default", Name: name} }

var plantedBugs = []planted{
	{
		name:  "the status is only written when the child was created",
		found: "kill-after:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			err = k.create(ctx, "child")
			if apierrors.IsAlreadyExists(err) && k.bug {
				return nil // it has been done
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			return k.annotate(ctx, p, "phase", "ready")
		},
		test: func(u *user) {
			u.create()
			u.annotated("phase", "ready")
		},
	},
	{
		name:  "the previous child is only known in memory",
		found: "kill-before:2",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			name := "child-" + p.Data["colour"]
			if err := k.ensure(ctx, name); err != nil {
				return err
			}
			old := []string{k.memory["previous"]}
			if !k.bug {
				children, err := k.list(ctx)
				if err != nil {
					return err
				}
				for _, c := range children {
					old = append(old, c.Name)
				}
			}
			for _, other := range old {
				if other == "" || other == name {
					continue
				}
				if err := k.children.Delete(ctx, other, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
			k.memory["previous"] = name
			return nil
		},
		test: func(u *user) {
			u.create("colour", "red")
			u.change("colour", "blue")
			u.children(1, "child-blue")
		},
	},
	{
		name:  "a child with a generated name is created before it is recorded",
		found: "kill-after:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil || p.Annotations["created"] == "yes" {
				return err
			}
			children, err := k.list(ctx)
			if err != nil {
				return err
			}
			if k.bug || len(children) == 0 {
				if err := k.create(ctx, "child-"); err != nil {
					return err
				}
			}
			return k.annotate(ctx, p, "created", "yes")
		},
		test: func(u *user) {
			u.create()
			u.children(1, "child-<generated>")
		},
	},
	{
		name:  "a finalizer's work is not idempotent",
		found: "kill-before:2",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			if p.DeletionTimestamp == nil {
				if err := k.finalizers(ctx, p, "example.com/quota"); err != nil {
					return err
				}
				k.world.set(string(p.UID), true)
				return nil
			}
			if k.bug {
				k.world.release()
			} else {
				k.world.set(string(p.UID), false) // does nothing the second time
			}
			return k.finalizers(ctx, p)
		},
		test: func(u *user) {
			u.create()
			u.delete()
			if u.world.released != 1 {
				u.Errorf("released %d times", u.world.released)
			}
		},
	},
	{
		name:  "the finalizer is added too late",
		found: "kill-before:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			switch {
			case p == nil || err != nil:
				return err
			case p.DeletionTimestamp != nil:
				k.world.set("record", false)
				return k.finalizers(ctx, p)
			case k.bug:
				k.world.set("record", true)
				return k.finalizers(ctx, p, "example.com/record")
			}
			if err := k.finalizers(ctx, p, "example.com/record"); err != nil {
				return err
			}
			k.world.set("record", true)
			return nil
		},
		test: func(u *user) {
			fill(u, u.server, parent())
			for range 6000 {
				if u.world.has("record") {
					break
				}
				u.pause(10 * time.Millisecond)
			}
			u.pause(5 * time.Millisecond) // not at the instant of a write
			u.delete()
			if u.world.has("record") {
				u.Error("the record was not removed")
			}
		},
	},
	{
		name:  "a replaced child's data is only in memory meanwhile",
		found: "kill-after:2",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			child, err := k.children.Get(ctx, "child", metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				token := p.Annotations["token"]
				if token == "" {
					token = k.memory["token"]
				}
				if token == "" {
					token = k.world.token()
				}
				return k.create(ctx, "child", "colour", p.Data["colour"], "token", token)
			case err != nil || string(child.Data["colour"]) == p.Data["colour"]:
				return err
			}
			k.memory["token"] = string(child.Data["token"])
			if !k.bug {
				if err := k.annotate(ctx, p, "token", string(child.Data["token"])); err != nil {
					return err
				}
			}
			return k.children.Delete(ctx, "child", metav1.DeleteOptions{}) // its fields are immutable
		},
		test: func(u *user) {
			u.create("colour", "red")
			token := u.child("child", "token")
			u.change("colour", "blue")
			if now := u.child("child", "token"); now != token || u.child("child", "colour") != "blue" {
				u.Errorf("token %q became %q", token, now)
			}
		},
	},
	{
		name:  "a counter is advanced before what it counts",
		found: "kill-after:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			children, err := k.list(ctx)
			if err != nil {
				return err
			}
			for i := len(children); i < 3; i++ {
				var count int
				_, _ = fmt.Sscan(p.Annotations["count"], &count) // 0 at first
				if k.bug {
					if err := k.annotate(ctx, p, "count", fmt.Sprint(count+1)); err != nil {
						return err
					}
				}
				if err := k.create(ctx, fmt.Sprint("child", i)); err != nil {
					return err
				}
			}
			if k.bug {
				return nil
			}
			return k.annotate(ctx, p, "count", "3")
		},
		test: func(u *user) {
			u.create()
			u.annotated("count", "3")
		},
	},
	{
		name:  "a child that exists is an error",
		found: "kill-after:1",
		opts:  apiserver.ExploreOptions{SameState: true}, // the test itself checks nothing
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil || p.Annotations["done"] != "" {
				return err
			}
			for _, name := range []string{"a", "b"} {
				if err := k.create(ctx, name); err != nil && (k.bug || !apierrors.IsAlreadyExists(err)) {
					return err
				}
			}
			return k.annotate(ctx, p, "done", "yes")
		},
		test: func(u *user) { u.create() },
	},
	{
		name:  "what exists at the start counts as done",
		found: "kill-before:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if err != nil {
				return err
			}
			first := k.memory["started"] == ""
			k.memory["started"] = "yes"
			if p == nil || first && k.bug {
				if p != nil {
					k.memory["seen"] = p.Name
				}
				return nil
			}
			if k.memory["seen"] == p.Name {
				return nil
			}
			return k.ensure(ctx, "child")
		},
		test: func(u *user) {
			u.create()
			u.children(1, "child")
		},
	},
	{
		name:  "an item is removed before it is added elsewhere",
		found: "kill-after:1",
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil || p.Data["items"] == "" {
				return err
			}
			item, rest, _ := strings.Cut(p.Data["items"], ",")
			remove := func() error {
				p.Data["items"] = rest
				_, err := k.parents.Update(ctx, p, metav1.UpdateOptions{})
				return err
			}
			add := func() error { return k.ensure(ctx, "item-"+item) }
			steps := []func() error{add, remove}
			if k.bug {
				steps = []func() error{remove, add}
			}
			for _, do := range steps {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		},
		test: func(u *user) {
			u.create("items", "a,b,c")
			u.children(3, "item-a")
		},
	},
	{
		name:  "a conflict is ignored",
		found: "conflict:1",
		opts:  apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.Conflict, apiserver.WebhookDown}},
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil || k.memory["done"] != "" {
				return err
			}
			err = k.annotate(ctx, p, "phase", "ready")
			if err != nil && (!k.bug || !apierrors.IsConflict(err)) {
				return err
			}
			k.memory["done"] = "yes"
			return nil
		},
		test: func(u *user) {
			u.create()
			u.annotated("phase", "ready")
		},
	},
	{
		name:  "an update after a conflict overwrites the change of another writer",
		found: "conflict:1",
		opts:  apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.Conflict}, SameState: true},
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			err = k.annotate(ctx, p, "phase", "ready")
			if k.bug && apierrors.IsConflict(err) {
				p.ResourceVersion = "" // as with the version of the server, and the rest from before
				_, err = k.parents.Update(ctx, p, metav1.UpdateOptions{})
			}
			return err
		},
		test: func(u *user) {
			u.create()
			u.annotated("phase", "ready")
		},
	},
	{
		name:  "an update without a version overwrites the change of another writer",
		found: "conflict:1",
		opts:  apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.Conflict}},
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil {
				return err
			}
			if k.bug {
				p.ResourceVersion = ""
			}
			return k.annotate(ctx, p, "phase", "ready")
		},
		test: func(u *user) {
			u.create()
			u.annotated("phase", "ready")
		},
	},
	{
		name:  "the cache is taken for the truth",
		found: "stale-cache:3s",
		opts:  apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.KillBefore}, StaleCache: 3 * time.Second},
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			if p == nil || err != nil || len(k.cache) > 0 {
				return err
			}
			if k.bug {
				return k.create(ctx, "child-")
			}
			return k.ensure(ctx, "child-"+p.Name)
		},
		test: func(u *user) {
			u.create()
			if n := strings.Count(string(u.server.Dump("secrets")), "kind: Secret"); n != 1 {
				u.Errorf("%d children", n)
			}
		},
	},
	{
		name:  "a crash during the recovery from a crash",
		found: "kill-after:1,kill-after:2",
		opts:  apiserver.ExploreOptions{Pairs: true},
		reconcile: func(ctx context.Context, k *kit) error {
			p, err := k.parent(ctx)
			switch {
			case p == nil || err != nil:
				return err
			case p.Annotations["accepted"] == "":
				if err := k.annotate(ctx, p, "accepted", "yes", "intent", "child"); err != nil {
					return err
				}
			case p.Annotations["intent"] == "":
				return nil
			case k.bug: // recovers
				if err := k.annotate(ctx, p, "intent", ""); err != nil {
					return err
				}
				return k.ensure(ctx, "child")
			}
			if err := k.ensure(ctx, "child"); err != nil {
				return err
			}
			return k.annotate(ctx, p, "intent", "")
		},
		test: func(u *user) {
			u.create()
			u.children(1, "child")
		},
	},
}
