package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// stored is a made-up history: the state of an object at a version; nil if it was deleted.
type stored struct {
	name    string
	deleted bool
}

// past is the history of a server: entry i has version i+1.
type past []stored

func (p past) object(version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: p[version-1].name, ResourceVersion: strconv.Itoa(version)}}
}

// list returns the objects at a version, like a server that has compacted everything before the version oldest.
func (p past) list(oldest int, opts metav1.ListOptions) (runtime.Object, error) {
	until := len(p)
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		until, _ = strconv.Atoi(opts.ResourceVersion)
	}
	if until < oldest {
		return nil, apierrors.NewResourceExpired("compacted")
	}
	found := map[string]int{}
	for i, s := range p[:until] {
		if found[s.name] = i + 1; s.deleted {
			delete(found, s.name)
		}
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(until)}}
	for name, version := range found {
		if only, some := strings.CutPrefix(opts.FieldSelector, "metadata.name="); !some || only == name {
			list.Items = append(list.Items, *p.object(version))
		}
	}
	return list, nil
}

// The first watch brings version 3. The next one fails, and the one after it ends the test.
func TestTheObserverGoesOnAfterAWatchFails(t *testing.T) {
	history := past{{name: "x"}, {name: "y"}, {name: "x"}, {name: "x"}, {name: "z"}, {name: "x"}, {name: "y", deleted: true}, {name: "z"}, {name: "x"}}
	gone := apierrors.NewResourceExpired("too old")
	for name, c := range map[string]struct {
		err     error                  // of the second watch
		event   *apierrors.StatusError // in place of err
		oldest  int                    // what etcd has
		want    string                 // the versions that were received
		resumes string                 // the version of the third watch
		fails   string
	}{
		"a cut connection":        {err: errors.New("connection reset"), want: "[3]", resumes: "3"},
		"too old":                 {err: gone, want: "[3 4 5 6 8 9 y]", resumes: "9"},
		"too old, as an event":    {event: gone, want: "[3 4 5 6 8 9 y]", resumes: "9"},
		"etcd has just enough":    {err: gone, oldest: 3, want: "[3 4 5 6 8 9 y]", resumes: "9"},
		"etcd lacks some of them": {err: gone, oldest: 5, want: "[3]", fails: "is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				watches, resumed := 0, ""
				var got []string
				err := follow(ctx, "1", source{
					watch: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(2, false)
						defer w.Stop()
						switch watches++; watches {
						case 1:
							w.Add(history.object(2))
							w.Modify(history.object(3))
						case 2:
							if c.event != nil {
								w.Error(&c.event.ErrStatus)
							}
							return w, c.err
						default:
							resumed = opts.ResourceVersion
							cancel()
						}
						return w, nil
					},
					list: func(_ context.Context, _ string, opts metav1.ListOptions) (runtime.Object, error) {
						return history.list(c.oldest, opts)
					},
				}, func(event watch.EventType, obj runtime.Object) error {
					m := obj.(*corev1.ConfigMap)
					if event == watch.Deleted {
						got = append(got, m.Name)
					} else if m.ResourceVersion != "2" {
						got = append(got, m.ResourceVersion)
					}
					return nil
				})
				if text := fmt.Sprint(err); c.fails == "" && err != nil || !strings.Contains(text, c.fails) {
					t.Errorf("it ended with %v", err)
				}
				if fmt.Sprint(got) != c.want || resumed != c.resumes {
					t.Errorf("received %v and watched from %q; want %s and %q", got, resumed, c.want, c.resumes)
				}
				if !slices.IsSortedFunc(got, strings.Compare) {
					t.Errorf("%v are not in order", got)
				}
			})
		})
	}
}
