package apiserver

import (
	"bytes"
	"fmt"

	"github.com/tarnproject/tarn/apiserver/internal/dump"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
)

// Dump returns the objects of some resources, such as "pods" or "deployments.apps", as YAML
// for comparison with a golden file or another dump. Without resources it returns all
// objects that were written since [New], except events and leases.
//
// The same test always yields the same text: objects are sorted, resource versions, UIDs,
// generations, creation times and managed fields are left out, and null fields too. Other
// times are shown as "<time>", UIDs of objects by the object, as in "<uid of Pod default/web>",
// generated names as in "web-<generated>", and an observedGeneration as "<generation>" or, if
// the status is of an earlier one, as "<not the generation>". That includes times, UIDs and
// names within longer strings and within the names of fields, as in "web-<generated>-config".
// Generated names with the same prefix look the same, so a dump does not show which of them a
// reference means.
//
// Hashes of pod templates are shown as "<hash>". Nodes and addresses of pods depend on the order in
// which they are scheduled and start, so the address of a pod with the condition PodScheduled is
// shown as "<ip of Pod default/web>" and its node as "<node>". The node of a pod is shown if the pod
// has a scheduler of its own or belongs to a DaemonSet.
// Events have a generated name, and neither the name of the process that reported them nor the version of the
// object that they are about.
// Custom resources are in the version that discovery prefers. A resource that the server does not serve is an
// error: it fails the test of [Start], and is a comment in the text.
func (s *Server) Dump(resources ...string) []byte {
	var all []dump.Object
	var out bytes.Buffer
	wanted := map[*kinds.Kind]bool{}
	for _, name := range resources {
		known := false
		for _, k := range s.catalog.All() {
			if !k.Review && kinds.Named(name)(k) {
				wanted[k.Storage], known = true, true
			}
		}
		if known {
			continue
		}
		text := fmt.Sprintf("apiserver: dump: the server does not serve a resource %q; specify one such as pods or deployments.apps", name)
		fmt.Fprintln(&out, "#", text)
		if s.report != nil {
			s.report("%s", text)
		}
	}
	for _, k := range s.catalog.StorageKinds() {
		for _, rec := range s.storage.All(k, "") {
			all = append(all, dump.Object{Kind: k, Record: rec})
		}
	}
	dump.Write(&out, all, s.storage.Deleted(), anotherWriter, func(o dump.Object) bool {
		if len(resources) > 0 {
			return wanted[o.Kind.Storage]
		}
		return o.Record.Version > s.firstChange && !o.Kind.IsLease() && o.Kind.Kind != "Event"
	})
	return out.Bytes()
}
