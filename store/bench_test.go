package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func bpod(i int, rv int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns-%03d", i/1000), Name: fmt.Sprintf("pod-%06d-abcde", i), UID: object.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(rv), Labels: map[string]string{"app": fmt.Sprintf("app-%d", i%300)}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%1000)}}
}

var idxNode = NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
var idxNS = NewIndex("ns", func(p *corev1.Pod) string { return p.Namespace })
var idxApp = NewIndex("app", func(p *corev1.Pod) string { return p.Labels["app"] })

func bstore(n int) (*Store[*corev1.Pod], []*corev1.Pod) {
	s := Must(New(object.Meta[*corev1.Pod](), Options[*corev1.Pod]{Indexes: []AnyIndex[*corev1.Pod]{idxNode, idxNS, idxApp}}))
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = bpod(i, i+1)
	}
	if err := s.Replace("200000", pods...); err != nil {
		panic(err)
	}
	return s, pods
}

func BenchmarkGet(b *testing.B) {
	s, pods := bstore(100000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := pods[(i*7919)%len(pods)]
		i++
		if _, ok := s.Get(object.Key{Namespace: p.Namespace, Name: p.Name}); !ok {
			b.Fatal()
		}
	}
}
func keysOf(pods []*corev1.Pod) ([]object.Key, []string) {
	ks := make([]object.Key, len(pods))
	ss := make([]string, len(pods))
	for i := range pods {
		p := pods[(i*7919)%len(pods)]
		ks[i] = object.Key{Namespace: strings.Clone(p.Namespace), Name: strings.Clone(p.Name)}
		ss[i] = ks[i].String()
	}
	return ks, ss
}

func BenchmarkGetKeys(b *testing.B) {
	s, pods := bstore(100000)
	ks, _ := keysOf(pods)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := s.Get(ks[i]); !ok {
			b.Fatal()
		}
		if i++; i == len(ks) {
			i = 0
		}
	}
}
func BenchmarkMapGet(b *testing.B) {
	_, pods := bstore(100000)
	_, ss := keysOf(pods)
	m := map[string]any{}
	for _, p := range pods {
		m[p.Namespace+"/"+p.Name] = p
	}
	var mu sync.RWMutex
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		mu.RLock()
		_, ok := m[ss[i]]
		mu.RUnlock()
		if !ok {
			b.Fatal()
		}
		if i++; i == len(ss) {
			i = 0
		}
	}
}
func BenchmarkSnapGet(b *testing.B) {
	s, pods := bstore(100000)
	snap := s.Snapshot()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := pods[(i*7919)%len(pods)]
		i++
		if _, ok := snap.Get(object.Key{Namespace: p.Namespace, Name: p.Name}); !ok {
			b.Fatal()
		}
	}
}
func BenchmarkAll(b *testing.B) {
	s, _ := bstore(100000)
	b.ReportAllocs()
	for b.Loop() {
		snap := s.Pin()
		n := 0
		for p := range snap.All() {
			if p != nil {
				n++
			}
		}
		if n != 100000 {
			b.Fatal(n)
		}
		snap.Release()
	}
}
func BenchmarkByIndex(b *testing.B) {
	s, _ := bstore(100000)
	b.ReportAllocs()
	i := 0
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("node-%d", i)
	}
	for b.Loop() {
		snap := s.Pin()
		n := 0
		for p := range idxNode.Get(snap, keys[i%1000]) {
			if p != nil {
				n++
			}
		}
		i++
		if n != 100 {
			b.Fatal(n)
		}
		snap.Release()
	}
}
func BenchmarkPin(b *testing.B) {
	s, _ := bstore(1000)
	b.ReportAllocs()
	for b.Loop() {
		s.Pin().Release()
	}
}
func BenchmarkSnapshot(b *testing.B) {
	s, _ := bstore(1000)
	b.ReportAllocs()
	for b.Loop() {
		s.Snapshot().Release()
	}
}
func BenchmarkUpdate(b *testing.B) {
	s, pods := bstore(100000)
	next := make([]*corev1.Pod, len(pods))
	for i := range pods {
		next[i] = bpod(i, 300000+i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := s.Set(next[(i*7919)%len(pods)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
func BenchmarkInsertDelete(b *testing.B) {
	s, pods := bstore(100000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := pods[(i*7919)%len(pods)]
		i++
		s.Delete(object.Key{Namespace: p.Namespace, Name: p.Name})
		s.Set(p)
	}
}
func BenchmarkReplaceSame(b *testing.B) {
	s, pods := bstore(100000)
	b.ReportAllocs()
	l, _ := object.ListOf(object.Meta[*corev1.Pod](), "300000", pods...)
	batch := &delta.Batch[*corev1.Pod]{Deltas: []delta.Delta[*corev1.Pod]{{Type: delta.Replaced, List: &l}}}
	for b.Loop() {
		if c, err := s.Apply(batch, nil); err != nil || len(c) > 0 {
			b.Fatal()
		}
	}
}
func BenchmarkReplaceFresh(b *testing.B) {
	for b.Loop() {
		bstore(100000)
	}
}
func BenchmarkDiff(b *testing.B) {
	s, pods := bstore(100000)
	a := s.Snapshot()
	for i := range 1000 {
		j := (i * 7919) % len(pods)
		s.Set(bpod(j, 400000+i))
	}
	c := s.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range Diff(a, c) {
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}
