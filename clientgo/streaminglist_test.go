package clientgo_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// streamer is a script that is asked for streaming lists. ends, if set, ends the n-th one.
type streamer struct {
	*script
	streams int
	ends    func(n int, w watch.Interface)
}

// IsWatchListSemanticsUnSupported is what client-go looks for.
func (s *streamer) IsWatchListSemanticsUnSupported() bool { return false }

// Watch implements cache.Watcher.
func (s *streamer) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.script.Watch(opts)
	if err == nil && opts.SendInitialEvents != nil {
		s.streams++
		s.ends(s.streams, w)
	}
	return w, err
}

// streamed runs a reflector over a script whose first streaming lists are ended, and returns how
// many lists of each kind were asked for within half a minute.
func streamed(t *testing.T, initial []watch.Event, ends func(n int, w watch.Interface)) (streams, lists int, keys []string) {
	withoutErrorHandlers(t)
	synctest.Test(t, func(t *testing.T) {
		s := &streamer{ends: ends, script: &script{
			list: func(metav1.ListOptions) (*corev1.PodList, error) {
				lists++
				return podsAt(10, podAt("listed", 1)), nil
			},
			watch: func(opts metav1.ListOptions) ([]watch.Event, error) {
				if opts.SendInitialEvents == nil {
					return nil, nil
				}
				return initial, nil
			},
		}}
		inf := clientgo.NewSharedIndexInformer(s, &corev1.Pod{}, 0, cache.Indexers{})
		stop := start(t, inf)
		<-time.After(30 * time.Second)
		stop()
		streams, keys = s.streams, inf.GetStore().ListKeys()
	})
	return streams, lists, keys
}

// A streaming list that ends before its bookmark is asked for again as a stream. What came of
// the first one is forgotten.
func TestAStreamingListThatIsCutIsAskedForAgainAsAStream(t *testing.T) {
	first := true
	end := podAt("", 12)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	initial := []watch.Event{{Type: watch.Added, Object: podAt("a", 11)}, {Type: watch.Bookmark, Object: end}}
	streams, lists, keys := streamed(t, initial, func(_ int, w watch.Interface) {
		if first {
			first = false
			<-w.ResultChan()
			<-w.ResultChan()
			w.Stop()
		}
	})
	if streams != 2 || lists != 0 || !slices.Equal(keys, []string{"ns/a"}) {
		t.Errorf("%d streaming lists, %d lists, holding %q", streams, lists, keys)
	}
}

func TestD26_AfterThreeStreamingListsThatAreCutALISTFollows(t *testing.T) {
	half := []watch.Event{{Type: watch.Added, Object: podAt("a", 11)}}
	streams, lists, keys := streamed(t, half, func(_ int, w watch.Interface) { w.Stop() })
	if streams != 3 || lists != 1 || !slices.Equal(keys, []string{"ns/listed"}) {
		t.Errorf("%d streaming lists, %d lists, holding %q", streams, lists, keys)
	}
}

// An error event that is no status ends a streaming list as a client does that cannot stream: a
// LIST follows at once, without a back-off.
func TestAStreamingListThatEndsInAnUnknownErrorIsFollowedByALISTAtOnce(t *testing.T) {
	withoutErrorHandlers(t)
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: func(metav1.ListOptions) (*corev1.PodList, error) { return podsAt(10), nil },
			watch: func(metav1.ListOptions) ([]watch.Event, error) {
				return []watch.Event{{Type: watch.Error, Object: podAt("a", 11)}}, nil
			},
		}
		inf := clientgo.NewSharedIndexInformer(&streamer{script: s, ends: func(int, watch.Interface) {}}, &corev1.Pod{}, 0, cache.Indexers{})
		start(t, inf) // and time has not moved
		if asked := s.asked.take(); len(asked) < 2 || !strings.HasPrefix(asked[1], ": list") || !inf.HasSynced() {
			t.Errorf("synced %v after %q", inf.HasSynced(), asked)
		}
	})
}

// A page that has the continue token it was asked for with would be listed for ever.
func TestD27_AListThatDoesNotEndFails(t *testing.T) {
	withoutErrorHandlers(t)
	s := &script{list: func(metav1.ListOptions) (*corev1.PodList, error) {
		list := podsAt(10, podAt("a", 1))
		list.Continue = "same"
		return list, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		inf := clientgo.NewSharedIndexInformer(s, &corev1.Pod{}, 0, cache.Indexers{})
		var failed error
		if err := inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { failed = err }); err != nil {
			t.Fatal(err)
		}
		start(t, inf)
		if asked := s.asked.take(); len(asked) != 2 || failed == nil || inf.HasSynced() {
			t.Errorf("asked %q, error %v", asked, failed)
		}
	})
}
