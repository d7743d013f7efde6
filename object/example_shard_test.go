package object_test

import (
	"errors"
	"fmt"

	"github.com/tarnproject/tarn/object"
)

// The hash of an object's namespace decides which of three replicas has it.
func ExampleShard() {
	for replica := range 3 {
		part := object.Part(object.ByNamespace, replica, 3)
		for _, namespace := range []string{"shop", "bank"} {
			if part.Contains("", namespace) {
				fmt.Printf("%s (hash %016x) is in part %d\n", namespace, object.Hash(namespace), replica)
			}
		}
	}
	// Output:
	// shop (hash 46dc5e18e28e2409) is in part 0
	// bank (hash 9a1adf9baa01f4b7) is in part 1
}

// Ranges that touch or overlap become one.
func ExampleNewShard() {
	quarter := uint64(1 << 62)
	half := object.NewShard(object.ByUID, object.HashRange{First: 0, Last: quarter - 1}, object.HashRange{First: quarter, Last: 2*quarter - 1})
	for r := range half.Ranges() {
		from, to := r.Bounds()
		fmt.Println(half.By(), from, to)
	}
	fmt.Println(half.Selector())
	fmt.Println(half.Equal(object.Part(object.ByUID, 0, 2)), half.ContainsHash(3*quarter))
	// Output:
	// object.metadata.uid 0x0000000000000000 0x8000000000000000
	// shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
	// true false
}

// What a replica has to list when its share grows from a third to a half.
func ExampleShard_Minus() {
	had, has := object.Part(object.ByUID, 0, 3), object.Part(object.ByUID, 0, 2)
	more, _ := has.Minus(had)
	less, _ := had.Minus(has)
	fmt.Println("list", more)
	fmt.Println("nothing to remove:", less.IsEmpty(), has.Covers(had))
	var everything object.Shard
	fmt.Println(everything.IsZero(), everything.Covers(has))
	// Output:
	// list 16.7 % by object.metadata.uid
	// nothing to remove: true true
	// true true
}

// A server or proxy reads the shardSelector of a request.
func ExampleParseRanges() {
	for _, selector := range []string{
		"shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
		"shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')",
	} {
		by, ranges, err := object.ParseRanges(selector)
		if errors.Is(err, object.ErrShard) {
			fmt.Println(err)
			continue
		}
		fmt.Println(object.NewShard(by, ranges...))
	}
	// Output:
	// 50.0 % by object.metadata.uid
	// object: not a shard selector: unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace
}
