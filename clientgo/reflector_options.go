package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/tarnproject/tarn/reflector"
)

// minWatchTimeout is the least that client-go takes for the timeout of watches.
const minWatchTimeout = 5 * time.Minute

// reflectorOptions are those of an informer's reflector.
func reflectorOptions(lw cache.ListerWatcher) reflector.Options[record] {
	opts := reflector.Options[record]{
		Streaming:    reflector.StreamingOff,
		RemovedAfter: -1, // in client-go a resource that is not served any more keeps its objects
	}
	if features.FeatureGates().Enabled(features.WatchListClient) && !watchlist.DoesClientNotSupportWatchListSemantics(lw) {
		opts.Streaming = reflector.StreamingAuto
	}
	return opts
}

// errorHandler returns a function that passes a reflector's failures to a watch error handler, or to
// client-go's default one. The handler gets a *cache.Reflector that has the names of ours and does
// nothing.
func errorHandler(ctx context.Context, lw cache.ListerWatcher, expected any, name, description string, handler cache.WatchErrorHandlerWithContext) func(error) {
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	description = describe(expected, description)
	named := cache.NewReflectorWithOptions(lw, expected, nil, cache.ReflectorOptions{Name: name, TypeDescription: description})
	return func(err error) {
		e := (*reflector.Error)(nil)
		if !errors.As(err, &e) || quiet(e) {
			return
		}
		cause := e.Err
		if e.Op == "list" {
			cause = fmt.Errorf("failed to list %v: %w", description, cause)
		}
		handler(ctx, named, cause)
	}
}

// quiet reports whether client-go does not report a failure: it retries the request itself, or a
// LIST follows a streaming list.
func quiet(e *reflector.Error) bool {
	if within := (*streamError)(nil); e.Op != "list" && errors.As(e.Err, &within) {
		return true
	}
	switch e.Reason {
	case reflector.Refused, reflector.Throttled:
		return e.Op != "list"
	case reflector.Short, reflector.ServerError, reflector.Closed:
		return e.Op == "watch"
	case reflector.NoBookmark:
		return true
	case reflector.Expired, reflector.TooLarge, reflector.Corrupt, reflector.Rejected, reflector.Silent:
		return e.Op == "streaming list"
	}
	return false
}

// describe says what is listed: as the program does, or by the expected type.
func describe(expected any, given string) string {
	switch {
	case given != "":
		return given
	case expected == nil:
		return "<unspecified>"
	}
	if u, ok := expected.(*unstructured.Unstructured); ok && !u.GroupVersionKind().Empty() {
		return u.GroupVersionKind().String()
	}
	return reflect.TypeOf(expected).String()
}
