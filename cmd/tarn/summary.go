package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// summary describes an object in a few words: for common kinds like kubectl's columns, for
// others from conventional status fields.
func summary(res object.Resource, obj *unstructured.Unstructured) string {
	t := tree(obj.Object)
	text := ""
	if f := summaries[res.Group+"/"+res.Kind]; f != nil {
		text = f(t)
	} else {
		text = conventional(t)
	}
	if obj.GetDeletionTimestamp() != nil && res.Kind != "Pod" {
		return strings.TrimSuffix("Terminating, "+text, ", ")
	}
	return text
}

// summaries is keyed by group and kind.
var summaries = map[string]func(tree) string{
	"/Pod":                           podSummary,
	"/Node":                          nodeSummary,
	"/Service":                       serviceSummary,
	"/Event":                         eventSummary,
	"events.k8s.io/Event":            eventSummary,
	"/ConfigMap":                     func(t tree) string { return counted(len(t.sub("data"))+len(t.sub("binaryData")), "key") },
	"/Secret":                        func(t tree) string { return t.text("type") + ", " + counted(len(t.sub("data")), "key") },
	"apps/Deployment":                replicaSummary,
	"apps/StatefulSet":               replicaSummary,
	"apps/ReplicaSet":                replicaSummary,
	"/ReplicationController":         replicaSummary,
	"apps/DaemonSet":                 daemonSummary,
	"batch/Job":                      jobSummary,
	"batch/CronJob":                  cronSummary,
	"coordination.k8s.io/Lease":      leaseSummary,
	"discovery.k8s.io/EndpointSlice": func(t tree) string { return counted(len(t.list("endpoints")), "endpoint") },
}

// tree reads a decoded object. Missing values and those of the wrong type read as empty.
type tree map[string]any

func (t tree) sub(path ...string) tree {
	for _, name := range path {
		next, _ := t[name].(map[string]any)
		t = next
	}
	return t
}

func (t tree) value(path ...string) any {
	last := len(path) - 1
	return t.sub(path[:last]...)[path[last]]
}

func (t tree) text(path ...string) string {
	s, _ := t.value(path...).(string)
	return s
}

func (t tree) number(path ...string) int64 {
	switch n := t.value(path...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func (t tree) list(path ...string) (elements []tree) {
	all, _ := t.value(path...).([]any)
	for _, e := range all {
		if m, ok := e.(map[string]any); ok {
			elements = append(elements, m)
		}
	}
	return elements
}

// condition returns the status and reason of a condition.
func (t tree) condition(kind string) (status, reason string) {
	for _, c := range t.list("status", "conditions") {
		if c.text("type") == kind {
			return c.text("status"), c.text("reason")
		}
	}
	return "", ""
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func podSummary(t tree) string {
	state := t.text("status", "phase")
	if reason := t.text("status", "reason"); reason != "" {
		state = reason
	}
	ready, restarts := 0, int64(0)
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range t.list("status", list) {
			restarts += c.number("restartCount")
			if why := c.text("state", "waiting", "reason"); why != "" && why != "PodInitializing" {
				state = why
			} else if why := c.text("state", "terminated", "reason"); why != "" && why != "Completed" {
				state = why
			}
			if r, _ := c["ready"].(bool); r && list == "containerStatuses" {
				ready++
			}
		}
	}
	if t.value("metadata", "deletionTimestamp") != nil {
		state = "Terminating"
	}
	if state == "" {
		state = "Unknown"
	}
	text := fmt.Sprintf("%s, %d/%d ready", state, ready, len(t.list("spec", "containers")))
	if restarts > 0 {
		text += ", " + counted(int(restarts), "restart")
	}
	return text
}

func nodeSummary(t tree) string {
	text := "Unknown"
	switch status, reason := t.condition("Ready"); status {
	case "True":
		text = "Ready"
	case "False":
		text = "NotReady (" + reason + ")"
	}
	if unschedulable, _ := t.value("spec", "unschedulable").(bool); unschedulable {
		text += ", SchedulingDisabled"
	}
	return text
}

func serviceSummary(t tree) string {
	kind := t.text("spec", "type")
	if kind == "" {
		kind = "ClusterIP"
	}
	return strings.TrimSpace(kind + " " + t.text("spec", "clusterIP"))
}

func eventSummary(t tree) string {
	about, message := t.sub("involvedObject"), t.text("message")
	if about == nil {
		about, message = t.sub("regarding"), t.text("note")
	}
	return fmt.Sprintf("%s %s %s/%s: %s", t.text("type"), t.text("reason"),
		strings.ToLower(about.text("kind")), about.text("name"), message)
}

// wanted returns spec.replicas, which defaults to 1.
func wanted(t tree) int64 {
	if t.value("spec", "replicas") == nil {
		return 1
	}
	return t.number("spec", "replicas")
}

func replicaSummary(t tree) string {
	text := fmt.Sprintf("%d/%d ready", t.number("status", "readyReplicas"), wanted(t))
	if t.value("status", "updatedReplicas") != nil || t.text("kind") == "Deployment" {
		text += fmt.Sprintf(", %d up to date", t.number("status", "updatedReplicas"))
	}
	if status, reason := t.condition("Progressing"); status == "False" {
		text += ", " + reason
	}
	return text
}

func daemonSummary(t tree) string {
	return fmt.Sprintf("%d/%d ready", t.number("status", "numberReady"), t.number("status", "desiredNumberScheduled"))
}

func jobSummary(t tree) string {
	for _, kind := range []string{"Complete", "Failed", "Suspended"} {
		if status, reason := t.condition(kind); status == "True" {
			if kind == "Failed" && reason != "" {
				return "Failed (" + reason + ")"
			}
			return kind
		}
	}
	return fmt.Sprintf("%d active, %d succeeded, %d failed",
		t.number("status", "active"), t.number("status", "succeeded"), t.number("status", "failed"))
}

func cronSummary(t tree) string {
	text := t.text("spec", "schedule")
	if suspended, _ := t.value("spec", "suspend").(bool); suspended {
		text += ", suspended"
	}
	return text
}

func leaseSummary(t tree) string {
	if holder := t.text("spec", "holderIdentity"); holder != "" {
		return "held by " + holder
	}
	return "not held"
}

// conventional returns the phase or the most telling condition.
func conventional(t tree) string {
	if phase := t.text("status", "phase"); phase != "" {
		return phase
	}
	for _, kind := range []string{"Ready", "Available", "Established", "Accepted", "Synced"} {
		switch status, reason := t.condition(kind); status {
		case "True":
			return kind
		case "False":
			if reason != "" {
				return "Not" + kind + " (" + reason + ")"
			}
			return "Not" + kind
		}
	}
	return ""
}
