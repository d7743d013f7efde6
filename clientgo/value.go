package clientgo

import (
	"sync/atomic"
	"unsafe"
)

// value is a value of any type that may be read while another of the same type is put in
// its place. An atomic.Value is that too; it also takes care of a first write beside
// readers, which costs every read and write: a tenth of a Get, a twentieth of an Update.
type value struct {
	typ  unsafe.Pointer // written by init alone
	data unsafe.Pointer // atomic
}

// words are the two that an interface consists of.
type words struct{ typ, data unsafe.Pointer }

// init is the first write, which no reader may be beside.
func (v *value) init(obj any) {
	w := (*words)(unsafe.Pointer(&obj))
	v.typ, v.data = w.typ, w.data
}

// load returns the value. After clear it is of its type and must not be looked at.
func (v *value) load() (obj any) {
	w := (*words)(unsafe.Pointer(&obj))
	w.typ, w.data = v.typ, atomic.LoadPointer(&v.data)
	return obj
}

// store puts another value in, and reports whether it could: it has to be of the same type.
func (v *value) store(obj any) bool {
	w := (*words)(unsafe.Pointer(&obj))
	if w.typ != v.typ {
		return false
	}
	atomic.StorePointer(&v.data, w.data)
	return true
}

// clear lets go of the value.
func (v *value) clear() { atomic.StorePointer(&v.data, nil) }
