package clientgo

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"k8s.io/client-go/tools/cache"
)

// handlerName returns what a handler is called in the names of its registration, as
// client-go does: where its functions come from, or its type.
func handlerName(handler cache.ResourceEventHandler) string {
	name := ""
	switch h := handler.(type) {
	case nil:
	case *cache.ResourceEventHandlerFuncs:
		name = funcsName(*h)
	case cache.ResourceEventHandlerFuncs:
		name = funcsName(h)
	default:
		t := reflect.TypeOf(handler)
		if t.Kind() == reflect.Pointer && !reflect.ValueOf(handler).IsNil() {
			t = t.Elem()
		}
		name = t.Name()
		if pkg := t.PkgPath(); pkg != "" {
			name = pkg + "." + name
		}
	}
	if name == "" {
		name = fmt.Sprintf("%T", handler)
	}
	return name
}

// funcsName returns what the functions' names have in common before the last dot; where
// they have not, all the names.
func funcsName(h cache.ResourceEventHandlerFuncs) string {
	var names []string
	for _, f := range []any{h.AddFunc, h.UpdateFunc, h.DeleteFunc} {
		// Those that are nil have a pointer of 0, and no name.
		if fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil && fn.Name() != "" {
			names = append(names, fn.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	common := qualifier(names[0])
	for _, name := range names[1:] {
		if qualifier(name) != common {
			return strings.Join(names, "+")
		}
	}
	return common
}

// qualifier returns a function's name up to its last dot.
func qualifier(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}
