package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	goruntime "runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// chunk is the number of objects that one goroutine encodes before it drops them.
	chunk = 500
	// sampled is the number of objects from which the size of a response is estimated.
	sampled = 250
)

// encodeChunks appends the encoding of n objects, in order, so that only a few objects exist at
// once. It allocates the estimated size at the beginning: a buffer that grows to 3 GB would need
// three times as much.
func encodeChunks(n int, to *bytes.Buffer, encode func(from, to int, out *bytes.Buffer) error) error {
	workers := goruntime.GOMAXPROCS(0)
	parts, errs := make([]bytes.Buffer, workers), make([]error, workers)
	if n > 4*sampled {
		for i := range sampled {
			at := i * (n / sampled)
			if err := encode(at, at+1, &parts[0]); err != nil {
				return err
			}
		}
		to.Grow(parts[0].Len()/sampled*n/20*21 + 1<<16)
	}
	for from := 0; from < n; from += workers * chunk {
		parallel(workers, func(w int) {
			parts[w].Reset()
			errs[w] = encode(min(from+w*chunk, n), min(from+(w+1)*chunk, n), &parts[w])
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for w := range parts {
			to.Write(parts[w].Bytes())
		}
	}
	return nil
}

// protobufList encodes a list in chunks. The bytes are those of the serializer for the whole list:
// a magic number and a runtime.Unknown with the kind and the list, whose field 1 is the metadata
// and field 2 the items.
func protobufList(e encoders, enc runtime.Encoder, from, to int, meta metav1.ListMeta) ([]byte, error) {
	const magic, room = 4, 256 // room is for what precedes the list, which depends on the list's length
	var empty bytes.Buffer
	if err := enc.Encode(e.list(from, from, meta), &empty); err != nil {
		return nil, err
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(empty.Bytes()[magic:]); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.Write(make([]byte, room))
	body.Write(envelope.Raw)
	err := encodeChunks(to-from, &body, func(lo, hi int, out *bytes.Buffer) error {
		var head []byte
		for i := lo; i < hi; i++ {
			obj := e.object(from + i)
			item, ok := obj.(interface{ Marshal() ([]byte, error) })
			if !ok {
				return fmt.Errorf("%T has no protobuf encoding", obj)
			}
			data, err := item.Marshal()
			if err != nil {
				return err
			}
			head = binary.AppendUvarint(append(head[:0], 2<<3|2), uint64(len(data)))
			out.Write(head)
			out.Write(data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kind, err := envelope.TypeMeta.Marshal()
	if err != nil {
		return nil, err
	}
	head := append([]byte{}, empty.Bytes()[:magic]...)
	head = append(binary.AppendUvarint(append(head, 1<<3|2), uint64(len(kind))), kind...)
	head = binary.AppendUvarint(append(head, 2<<3|2), uint64(body.Len()-room))
	body.Write([]byte{3<<3 | 2, 0, 4<<3 | 2, 0}) // no content encoding and no content type
	copy(body.Bytes()[room-len(head):], head)
	return body.Bytes()[room-len(head):], nil
}
