package mvcc

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// arena keeps the keys that are too long for an entry, as bytes, one behind the other. Keys
// that are gone leave their bytes behind until there is another table with another arena.
//
// A key is the lengths of namespace and name, two bytes each, and both texts. A length
// that does not fit is told by longKey and eight bytes each.
type arena struct {
	blocks atomic.Pointer[[][]byte]
	used   int // of the writer: bytes of the last block
}

const (
	blockBits = 12
	blockSize = 1 << blockBits
	maxBlocks = 1 << (32 - blockBits)
	longKey   = 1<<16 - 1
)

func newArena() *arena {
	a := &arena{}
	a.blocks.Store(new([][]byte))
	return a
}

func (a *arena) put(k object.Key) uint32 {
	size := 4 + len(k.Namespace) + len(k.Name)
	long := len(k.Namespace) >= longKey || len(k.Name) >= longKey
	if long {
		size += 16
	}
	blocks := *a.blocks.Load()
	if len(blocks) == 0 || a.used+size > len(blocks[len(blocks)-1]) {
		if len(blocks) == maxBlocks {
			panic("mvcc: more than four gigabytes of keys")
		}
		blocks = append(blocks, make([]byte, max(blockSize, size)))
		a.blocks.Store(&blocks)
		a.used = 0
	}
	at := uint32((len(blocks)-1)<<blockBits | a.used)
	b := blocks[len(blocks)-1][a.used:a.used]
	if long {
		b = binary.LittleEndian.AppendUint32(b, 1<<32-1)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(k.Namespace)))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(k.Name)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Namespace))|uint32(len(k.Name))<<16)
	}
	b = append(b, k.Namespace...)
	_ = append(b, k.Name...)
	a.used += size
	return at
}

// texts returns the bytes of the key at a place.
func (a *arena) texts(at uint32) (namespace, name []byte) {
	b := (*a.blocks.Load())[at>>blockBits][at&(blockSize-1):]
	lengths := binary.LittleEndian.Uint32(b)
	ns, n := uint64(lengths&0xffff), uint64(lengths>>16)
	b = b[4:]
	if ns == longKey {
		ns, n = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		b = b[16:]
	}
	return b[:ns], b[ns : ns+n]
}

func (a *arena) get(at uint32) object.Key {
	namespace, name := a.texts(at)
	return object.Key{Namespace: view(namespace), Name: view(name)}
}

// view returns the string of bytes that are never written again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
