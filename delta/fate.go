package delta

import "github.com/tarnproject/tarn/object"

// fate is the outcome of one log for one key: the newest delta or list item of the key, and
// what later lists imply.
type fate[T any] struct {
	delta *object.Change[T] // set if the newest is a delta
	item  *object.Item[T]   // set if the newest is an item, which is then decodable
	list  *wholeList[T]     // the list of the item
	// absent is the first later list without the key. Still later lists do not matter.
	absent *wholeList[T]
	// unclear: the newest state could not be decoded; or a later list has the key, or may have it, in
	// an item that was not decodable, or it covers only a part of the scope.
	unclear bool
}

// deleted reports whether the key does not exist at the end of the log.
func (f fate[T]) deleted() bool {
	return f.absent != nil || f.delta != nil && f.delta.Kind == object.Deleted
}

// find returns the item of a key; of several, the last that is decodable.
func (w *wholeList[T]) find(key object.Key) (*object.Item[T], bool) {
	if w.keys == nil {
		w.keys = make(map[object.Key]int, len(w.Items))
		for i := range w.Items {
			item := &w.Items[i]
			if item.Err != nil {
				w.nameless = w.nameless || item.Key.IsZero()
				if _, ok := w.keys[item.Key]; ok {
					continue
				}
			}
			w.keys[item.Key] = i
		}
	}
	i, ok := w.keys[key]
	if !ok {
		return nil, false
	}
	return &w.Items[i], true
}

// lacks reports whether the list implies that the key does not exist. A list of a part does not: that
// takes the object's UID, and the consumer decides.
func (w *wholeList[T]) lacks(key object.Key) bool {
	if !w.Scope.Covers(key) || !w.Part.IsZero() {
		return false
	}
	_, ok := w.find(key)
	return !ok && !w.nameless
}

// fate looks back from the end of the log to the newest mention of the key.
func (l *log[T]) fate(key object.Key) (f fate[T]) {
	_, last, ok := l.lookup(key)
	bad := -1 // the last delta, if that is Quarantined
	switch {
	case !ok:
		last = -1
	case l.deltas[last].Kind == object.Quarantined:
		bad, last = last, -1
		l.chain(key, func(i int) {
			if l.deltas[i].Kind != object.Quarantined {
				last = i
			}
		})
	}
	for i := len(l.lists) - 1; i >= 0 && l.at(l.lists[i].pos) > last; i-- {
		w := &l.lists[i]
		item, ok := w.find(key)
		switch {
		case ok && item.Err == nil:
			f.item, f.list = item, w
			f.unclear = f.unclear || bad > l.at(w.pos)
			return f
		case ok:
			f.unclear = true
		case w.lacks(key):
			f.absent = w
		case w.Scope.Covers(key):
			f.unclear = true
		}
	}
	f.unclear = f.unclear || bad > last
	if last >= 0 {
		f.delta = &l.deltas[last]
	}
	return f
}

// newest returns the newest state that the log has of a key, other than the last state
// of a deleted object. Only identity and value of the result are set.
func (l *log[T]) newest(key object.Key) (state object.Change[T], ok bool) {
	at := -1
	l.chain(key, func(i int) {
		if k := l.deltas[i].Kind; k != object.Deleted && k != object.Quarantined {
			state, ok, at = l.deltas[i], true, i
		}
	})
	for i := range l.lists {
		w := &l.lists[i]
		if item, listed := w.find(key); listed && !item.Held && item.Err == nil && l.at(w.pos) > at {
			state, ok = object.ChangeOf(0, item), true
		}
	}
	return state, ok
}

// names calls yield for every key that has a delta or an item in the log, possibly more than
// once.
func (l *log[T]) names(yield func(object.Key)) {
	for i := l.head; i < len(l.deltas); i++ {
		d := &l.deltas[i]
		switch {
		case d.List != nil:
			for j := range d.List.Items {
				yield(d.List.Items[j].Key)
			}
		case d.Kind != 0:
			yield(d.Key)
		}
	}
}

// exists reports whether a key exists for a consumer that holds Known and was handed a log,
// which may be nil, and returns its newest state. The log takes precedence over Known,
// however far its processing has come.
func (f *FIFO[T]) exists(key object.Key, handed *log[T]) (state object.Change[T], ok bool) {
	if handed != nil {
		ft := handed.fate(key)
		if ft.deleted() {
			return state, false
		}
		if state, ok = handed.newest(key); ok {
			return state, true
		}
		if ft.item != nil && f.opts.Known == nil {
			// It was listed as held, so the consumer holds it.
			return object.ChangeOf(0, ft.item), true
		}
	}
	return f.known(key)
}

func (f *FIFO[T]) known(key object.Key) (state object.Change[T], ok bool) {
	if f.opts.Known == nil {
		return state, false
	}
	obj, ok := f.opts.Known.Get(key)
	if !ok {
		return state, false
	}
	item, err := f.item(obj)
	if err != nil {
		item = object.Item[T]{Value: object.Decoded(obj)} // it exists, whatever its identity
	}
	item.Key = key
	return object.ChangeOf(0, &item), true
}

// held returns the newest state of a key for an item of the list w that was not
// decoded because it is held. before is what was pending when the list came.
func (f *FIFO[T]) held(key object.Key, before *log[T], w *wholeList[T]) (state object.Change[T], ok bool) {
	for _, l := range [...]*log[T]{before, f.handed(w)} {
		if l == nil {
			continue
		}
		if state, ok = l.newest(key); ok {
			return state, true
		}
	}
	return f.known(key)
}

// handed returns what was in flight when a list came that is pending now.
func (f *FIFO[T]) handed(w *wholeList[T]) *log[T] {
	switch {
	case !w.during:
		return nil
	case f.flight != nil:
		return f.flight
	}
	return f.before
}

// isPending reports whether a key has a delta pending, or would have one if all
// lists were taken apart.
func (f *FIFO[T]) isPending(key object.Key) bool {
	ft := f.pending.fate(key)
	switch {
	case ft.delta != nil, ft.item != nil && !ft.item.Held:
		return true
	case ft.item != nil:
		_, ok := f.held(key, f.pending, ft.list)
		return ok
	case ft.absent != nil:
		_, ok := f.exists(key, f.handed(ft.absent))
		return ok
	}
	return false
}
