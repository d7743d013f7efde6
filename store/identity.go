package store

import (
	"strconv"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// identity distinguishes one version of an object from another.
type identity struct {
	uid     object.UID
	version object.Version
	// compact is the same in numbers. If it is not zero, uid and version may be empty.
	compact compactID
}

// compactID is an identity in three words: the UID as a number, if it is a UUID as the API server
// writes it, and the version, if it is a decimal of 64 bits. It is zero otherwise. The store
// notes it for each object, so that comparing identities does not read the object.
type compactID [identWords]uint64

const identWords = 3

func identityFrom(uid object.UID, version object.Version) identity {
	return identity{uid: uid, version: version, compact: compactIDFrom(uid, version)}
}

func compactIDFrom(uid object.UID, version object.Version) (b compactID) {
	n, ok := decimal(version)
	if !ok || len(uid) != 36 || uid[8] != '-' || uid[13] != '-' || uid[18] != '-' || uid[23] != '-' {
		return compactID{}
	}
	s := string(uid)
	w0, e0 := hex(four(s[0:4]) | four(s[4:8])<<32)
	w1, e1 := hex(four(s[9:13]) | four(s[14:18])<<32)
	w2, e2 := hex(four(s[19:23]) | four(s[24:28])<<32)
	w3, e3 := hex(four(s[28:32]) | four(s[32:36])<<32)
	if e0|e1|e2|e3 != 0 {
		return compactID{}
	}
	return compactID{w0<<32 | w1, w2<<32 | w3, n}
}

// texts returns the identity of a compact one that is not zero, in full.
func (b *compactID) texts() identity {
	var s [36]byte
	digits(s[0:4], s[4:8], b[0]>>32)
	digits(s[9:13], s[14:18], b[0])
	digits(s[19:23], s[24:28], b[1]>>32)
	digits(s[28:32], s[32:36], b[1])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return identity{uid: object.UID(s[:]), version: object.Version(strconv.FormatUint(b[2], 10)), compact: *b}
}

// digits is the inverse of hex: n has, in its lower 32 bits, the value of eight digits.
func digits(first, second []byte, n uint64) {
	const hex = "0123456789abcdef"
	for i, to := range [...][]byte{first, second} {
		for j := range 2 {
			pair := byte(n >> (16*i + 8*j))
			to[2*j], to[2*j+1] = hex[pair>>4], hex[pair&15]
		}
	}
}

// four returns four bytes as a number.
func four(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

// hex returns the value of eight lower-case hexadecimal digits, one in each byte of x, as 32
// bits in no particular order. bad is not zero if one of them is not a digit.
func hex(x uint64) (n, bad uint64) {
	const each = 0x0101010101010101
	letter := x >> 6 & each    // set in the letters, and not in the digits
	n = x&(15*each) + 9*letter // as 'a' is 1 in its low bits
	bad = x ^ (n + '0'*each + ('a'-10-'0')*letter) |
		(n+6*each)&(16*each) ^ letter<<4 | // ten and more, just for the letters
		n&(240*each)
	n = (n<<4 | n>>8) & 0x00ff00ff00ff00ff
	n = (n | n>>8) & 0x0000ffff0000ffff
	return (n | n>>16) & 0xffffffff, bad
}

// decimal returns a version that has an order as a number, if it is one of 64 bits.
func decimal(v object.Version) (n uint64, ok bool) {
	if len(v) == 0 || len(v) > 19 || v[0] == '0' {
		return 0, false
	}
	for i := range len(v) {
		c := v[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, true
}

// both reports whether a and b can be compared in compact form.
func (a *identity) both(b *identity) bool { return a.compact[2] != 0 && b.compact[2] != 0 }

// sameUID reports whether both have the same UID.
func (b *compactID) sameUID(c *compactID) bool { return b[0] == c[0] && b[1] == c[1] }

// same reports whether both are certainly the same version of the same object. It is false if
// the UID or the version is unknown.
func (a *identity) same(b *identity) bool {
	if a.both(b) {
		return a.compact == b.compact
	}
	return a.uid != "" && a.uid == b.uid && a.version.Known() && a.version == b.version
}

// otherUID reports whether the two are certainly different objects of one name.
func (a *identity) otherUID(b *identity) bool {
	if a.both(b) {
		return !a.compact.sameUID(&b.compact)
	}
	return a.uid != "" && b.uid != "" && a.uid != b.uid
}

// deletedBy reports whether a deletion with identity d means that the object held as h does not
// exist any more. An old server sends the object's own version, so an equal version counts. A
// later deletion of another UID counts too: that object was created after h was deleted.
func (h *identity) deletedBy(d *identity) bool {
	if h.otherUID(d) {
		if h.both(d) {
			return d.compact[2] > h.compact[2]
		}
		return !h.version.Known() || d.version.After(h.version)
	}
	if h.both(d) {
		return d.compact[2] >= h.compact[2]
	}
	order, ok := d.version.Compare(h.version)
	return !ok || order >= 0
}

// notBefore reports whether h is certainly as new as the event e about the same object.
func (h *identity) notBefore(e *identity) bool {
	if h.both(e) {
		return h.compact.sameUID(&e.compact) && e.compact[2] <= h.compact[2]
	}
	return h.uid != "" && h.uid == e.uid && e.version.NotAfter(h.version)
}

// identityOf returns the identity of what is held at r, in a form that can be compared with
// that of other, and without a version if it is of an earlier epoch. It is for the writer.
func (s *Store[T]) identityOf(r ref, other *identity) identity {
	if other.compact[2] != 0 {
		if b := s.compactIDOf(r.ID); b[2] != 0 {
			return identity{compact: b}
		}
	}
	id := s.identity(s.objects.Live(r))
	if len(s.foreign) > 0 && s.foreign[r.ID] {
		id.version, id.compact = "", compactID{}
	}
	return id
}

// compactIDOf returns the noted identity of an id, for the writer.
func (s *Store[T]) compactIDOf(id uint32) compactID {
	n := s.objects.Note(id)
	return compactID(n[:identWords])
}

func (s *Store[T]) note(id uint32, b *compactID) {
	n := s.objects.Note(id)
	for i := range b {
		if n[i] != b[i] { // mostly only the version is another
			atomic.StoreUint64(&n[i], b[i])
		}
	}
}
