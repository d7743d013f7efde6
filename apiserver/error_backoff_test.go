package apiserver_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// A program of client-go in a bubble must not wait for the clock of another.
func TestErrorsInABubbleTakeNoTime(t *testing.T) {
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			utilruntime.HandleErrorWithContext(t.Context(), errors.New("a watch ended"), "Failed to watch")
			if d := time.Since(began); d != 0 {
				t.Errorf("it took %v", d)
			}
		})
	}
}
