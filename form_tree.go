package tarn

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Unstructured content has its own encoding because JSON cannot distinguish float64(1) from
// int64(1), or an empty list from a nil one. Each value is a tag followed by its data. Equal
// trees have equal encodings.
const (
	tagNil byte = iota
	tagFalse
	tagTrue
	tagInt    // a varint
	tagFloat  // its 8 bytes
	tagString // its length and bytes
	tagNumber // a json.Number, encoded like a string
	tagList   // its length and values
	tagNoList // []any(nil)
	tagMap    // its length, and keys (as strings without a tag) and values, by key
	tagNoMap  // map[string]any(nil)
	tagOther  // JSON, encoded like a string
)

// maxTreeDepth limits the nesting of lists and maps, so that encoding a value that contains
// itself ends with an error.
const maxTreeDepth = 10_000

var (
	errTreeDepth = errors.New("nested too deeply")
	errTree      = errors.New("not an encoded tree")
)

// appendTree appends the encoding of a value. A value of a type that unstructured content
// must not have (apimachinery panics when it copies one) is encoded as JSON.
func appendTree(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxTreeDepth {
		return nil, errTreeDepth
	}
	var err error
	switch v := v.(type) {
	case nil:
		return append(dst, tagNil), nil
	case bool:
		if v {
			return append(dst, tagTrue), nil
		}
		return append(dst, tagFalse), nil
	case int64:
		return binary.AppendVarint(append(dst, tagInt), v), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(dst, tagFloat), math.Float64bits(v)), nil
	case string:
		return appendText(append(dst, tagString), v), nil
	case json.Number:
		return appendText(append(dst, tagNumber), string(v)), nil
	case []any:
		if v == nil {
			return append(dst, tagNoList), nil
		}
		dst = binary.AppendUvarint(append(dst, tagList), uint64(len(v)))
		for _, elem := range v {
			if dst, err = appendTree(dst, elem, depth+1); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case map[string]any:
		if v == nil {
			return append(dst, tagNoMap), nil
		}
		dst = binary.AppendUvarint(append(dst, tagMap), uint64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if dst, err = appendTree(appendText(dst, k), v[k], depth+1); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	other, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("a value of type %T: %w", v, err)
	}
	return appendText(append(dst, tagOther), string(other)), nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// readTree decodes the first value in data and returns the rest. Strings alias data.
func readTree(data string) (v any, rest string, err error) {
	if data == "" {
		return nil, "", errTree
	}
	tag, data := data[0], data[1:]
	switch tag {
	case tagNil:
		return nil, data, nil
	case tagFalse, tagTrue:
		return tag == tagTrue, data, nil
	case tagInt:
		u, data, err := readUvarint(data)
		return int64(u>>1) ^ -int64(u&1), data, err
	case tagFloat:
		if len(data) < 8 {
			return nil, "", errTree
		}
		return math.Float64frombits(binary.LittleEndian.Uint64([]byte(data[:8]))), data[8:], nil
	case tagString, tagNumber, tagOther:
		s, data, err := readText(data)
		if err != nil {
			return nil, "", err
		}
		switch tag {
		case tagNumber:
			return json.Number(s), data, nil
		case tagOther:
			err = unmarshalTree([]byte(s), &v)
			return v, data, err
		}
		return s, data, nil
	case tagNoList:
		return []any(nil), data, nil
	case tagNoMap:
		return map[string]any(nil), data, nil
	case tagList:
		n, data, err := readUvarint(data)
		if err != nil || n > uint64(len(data)) {
			return nil, "", errTree
		}
		list := make([]any, n)
		for i := range list {
			if list[i], data, err = readTree(data); err != nil {
				return nil, "", err
			}
		}
		return list, data, nil
	case tagMap:
		n, data, err := readUvarint(data)
		if err != nil || n > uint64(len(data)) {
			return nil, "", errTree
		}
		m := make(map[string]any, n)
		for range n {
			var k string
			if k, data, err = readText(data); err != nil {
				return nil, "", err
			}
			if m[k], data, err = readTree(data); err != nil {
				return nil, "", err
			}
		}
		return m, data, nil
	}
	return nil, "", errTree
}

func readText(data string) (s, rest string, err error) {
	n, data, err := readUvarint(data)
	if err != nil || n > uint64(len(data)) {
		return "", "", errTree
	}
	return data[:n], data[n:], nil
}

func readUvarint(data string) (u uint64, rest string, err error) {
	for i := 0; i < len(data) && i < binary.MaxVarintLen64; i++ {
		u |= uint64(data[i]&0x7f) << (7 * i)
		if data[i] < 0x80 {
			return u, data[i+1:], nil
		}
	}
	return 0, "", errTree
}
