package apiserver

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// column is a column of a custom resource's table.
type column struct {
	metav1.TableColumnDefinition
	path *jsonpath.JSONPath
}

// columnsOf parses the printer columns of a custom resource. As on the real server, an
// invalid path ends the list.
func columnsOf(defined []definedColumn) (columns []column) {
	for _, d := range defined {
		path := jsonpath.New(d.Name).AllowMissingKeys(true)
		if path.Parse("{"+d.Path+"}") != nil {
			break
		}
		columns = append(columns, column{path: path, TableColumnDefinition: metav1.TableColumnDefinition{
			Name: d.Name, Type: d.Type, Format: d.Format, Priority: d.Priority,
			Description: cmp.Or(d.Description, "Custom resource definition column (in JSONPath format): "+d.Path),
		}})
	}
	return columns
}

// col returns a column with the description of the real server.
func col(name, kind string, priority int32, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Priority: priority, Description: description}
}

// doc returns the documentation of a field of an API type.
func doc(t interface{ SwaggerDoc() map[string]string }, field string) string {
	return t.SwaggerDoc()[field]
}

var (
	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: doc(metav1.ObjectMeta{}, "name")}
	ageColumn  = col("Age", "string", 0, doc(metav1.ObjectMeta{}, "creationTimestamp"))

	containersColumn = col("Containers", "string", 1, "Names of each container in the template.")
	imagesColumn     = col("Images", "string", 1, "Images referenced by each container in the template.")
)

// layouts holds the columns of common kinds. Other kinds have name and age.
var layouts = map[string][]metav1.TableColumnDefinition{
	"pods": {nameColumn, col("Ready", "string", 0, "The aggregate readiness state of this pod for accepting traffic."),
		col("Status", "string", 0, "The aggregate status of the containers in this pod."),
		col("Restarts", "string", 0, "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
		ageColumn, col("IP", "string", 1, doc(corev1.PodStatus{}, "podIP")), col("Node", "string", 1, doc(corev1.PodSpec{}, "nodeName")),
		col("Nominated Node", "string", 1, doc(corev1.PodStatus{}, "nominatedNodeName")), col("Readiness Gates", "string", 1, doc(corev1.PodSpec{}, "readinessGates"))},
	"deployments.apps": {nameColumn, col("Ready", "string", 0, "Number of the pod with ready state"),
		col("Up-to-date", "string", 0, doc(appsv1.DeploymentStatus{}, "updatedReplicas")), col("Available", "string", 0, doc(appsv1.DeploymentStatus{}, "availableReplicas")),
		ageColumn, containersColumn, imagesColumn, col("Selector", "string", 1, doc(appsv1.DeploymentSpec{}, "selector"))},
	"replicasets.apps": {nameColumn, col("Desired", "integer", 0, doc(appsv1.ReplicaSetSpec{}, "replicas")), col("Current", "integer", 0, doc(appsv1.ReplicaSetStatus{}, "replicas")),
		col("Ready", "integer", 0, doc(appsv1.ReplicaSetStatus{}, "readyReplicas")), ageColumn},
	"nodes": {nameColumn, col("Status", "string", 0, "The status of the node"), col("Roles", "string", 0, "The roles of the node"), ageColumn,
		col("Version", "string", 0, doc(corev1.NodeSystemInfo{}, "kubeletVersion"))},
	"namespaces": {nameColumn, col("Status", "string", 0, "The status of the namespace"), ageColumn},
	"services": {nameColumn, col("Type", "string", 0, doc(corev1.ServiceSpec{}, "type")), col("Cluster-IP", "string", 0, doc(corev1.ServiceSpec{}, "clusterIP")),
		col("External-IP", "string", 0, doc(corev1.ServiceSpec{}, "externalIPs")), col("Port(s)", "string", 0, doc(corev1.ServiceSpec{}, "ports")), ageColumn},
	"configmaps": {nameColumn, col("Data", "string", 0, doc(corev1.ConfigMap{}, "data")), ageColumn},
	"secrets":    {nameColumn, col("Type", "string", 0, doc(corev1.Secret{}, "type")), col("Data", "string", 0, doc(corev1.Secret{}, "data")), ageColumn},
	"customresourcedefinitions.apiextensions.k8s.io": {nameColumn, col("Created At", "date", 0, ageColumn.Description)},
	"jobs.batch": {nameColumn, col("Status", "string", 0, "Status of the job."), col("Completions", "string", 0, doc(batchv1.JobStatus{}, "succeeded")), ageColumn},
	"events": {col("Last Seen", "string", 0, doc(corev1.Event{}, "lastTimestamp")), col("Type", "string", 0, doc(corev1.Event{}, "type")),
		col("Reason", "string", 0, doc(corev1.Event{}, "reason")), col("Object", "string", 0, doc(corev1.Event{}, "involvedObject")),
		col("Message", "string", 0, doc(corev1.Event{}, "message"))},
}

// table renders a page for kubectl. In a watch, only the first table has column
// definitions.
func (s *Server) table(r *request, p page, columns bool) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: r.rep.in.String(), Kind: "Table"},
		ListMeta: metav1.ListMeta{ResourceVersion: formatVersion(p.version), Continue: p.next, RemainingItemCount: p.remaining},
		Rows:     make([]metav1.TableRow, 0, len(p.records)),
	}
	if columns {
		t.ColumnDefinitions = r.kind.layout()
	}
	include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	for _, rec := range p.records {
		row := metav1.TableRow{Cells: r.kind.cells(rec)}
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			// Rows are raw extensions and always hold JSON.
			if raw, err := s.codecs.record(r.kind, asJSON, rec); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		default:
			if raw, err := s.codecs.encode(representation{}, partial(rec, r.rep.in)); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (k *kind) layout() []metav1.TableColumnDefinition {
	if l := layouts[k.String()]; l != nil {
		return l
	}
	out := []metav1.TableColumnDefinition{nameColumn}
	if len(k.columns) == 0 && k.typed {
		return append(out, ageColumn)
	}
	if len(k.columns) == 0 {
		return append(out, col("Age", "date", 0, ageColumn.Description))
	}
	for _, c := range k.columns {
		out = append(out, c.TableColumnDefinition)
	}
	return out
}

// cells returns the values of a row in column order.
func (k *kind) cells(rec *record) []any {
	name, age := any(rec.key.Name), any(since(rec.meta.GetCreationTimestamp()))
	switch o := rec.obj.(type) {
	case *corev1.Pod:
		ready, restarts := 0, int64(0)
		for _, c := range o.Status.ContainerStatuses {
			if c.Ready {
				ready++
			}
			restarts += int64(c.RestartCount)
		}
		return []any{name, fmt.Sprintf("%d/%d", ready, len(o.Spec.Containers)), podStatus(o), strconv.FormatInt(restarts, 10), age,
			none(o.Status.PodIP), none(o.Spec.NodeName), none(o.Status.NominatedNodeName), readinessGates(o)}
	case *appsv1.Deployment:
		return []any{name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, value(o.Spec.Replicas)), int64(o.Status.UpdatedReplicas), int64(o.Status.AvailableReplicas), age,
			containers(o.Spec.Template, func(c corev1.Container) string { return c.Name }),
			containers(o.Spec.Template, func(c corev1.Container) string { return c.Image }), metav1.FormatLabelSelector(o.Spec.Selector)}
	case *appsv1.ReplicaSet:
		return []any{name, int64(value(o.Spec.Replicas)), int64(o.Status.Replicas), int64(o.Status.ReadyReplicas), age}
	case *corev1.Node:
		return []any{name, nodeStatus(o), none(""), age, o.Status.NodeInfo.KubeletVersion}
	case *corev1.Namespace:
		return []any{name, string(o.Status.Phase), age}
	case *corev1.Service:
		var ports []string
		for _, p := range o.Spec.Ports {
			ports = append(ports, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
		return []any{name, string(o.Spec.Type), none(o.Spec.ClusterIP), none(strings.Join(o.Spec.ExternalIPs, ",")), none(strings.Join(ports, ",")), age}
	case *corev1.ConfigMap:
		return []any{name, int64(len(o.Data) + len(o.BinaryData)), age}
	case *corev1.Secret:
		return []any{name, string(o.Type), int64(len(o.Data)), age}
	case *batchv1.Job:
		return []any{name, jobStatus(o), fmt.Sprintf("%d/%d", o.Status.Succeeded, value(o.Spec.Completions)), age}
	case *unstructured.Unstructured:
		if k.Kind == "CustomResourceDefinition" {
			return []any{name, rec.meta.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		}
	case *corev1.Event:
		return []any{since(o.LastTimestamp), o.Type, o.Reason, strings.ToLower(o.InvolvedObject.Kind) + "/" + o.InvolvedObject.Name, o.Message}
	}
	if len(k.columns) == 0 {
		return []any{name, age}
	}
	cells := []any{name}
	for _, c := range k.columns {
		cells = append(cells, c.cell(contentOf(k.working(rec))))
	}
	return cells
}

// cell returns the value of a custom column: the first one that the path finds, or nil if
// that does not have the type of the column.
func (c *column) cell(tree map[string]any) any {
	found, err := c.path.FindResults(tree)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch v := value.(type) {
	case int64:
		switch c.Type {
		case "integer":
			return v
		case "number":
			return float64(v)
		}
	case float64:
		switch c.Type {
		case "integer":
			return int64(v)
		case "number":
			return v
		}
	case bool:
		if c.Type == "boolean" {
			return v
		}
	case string:
		if c.Type == "date" {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return "<invalid>"
			}
			return since(metav1.NewTime(at))
		}
	}
	var text strings.Builder
	if c.Type != "string" || c.path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
		return nil
	}
	return text.String()
}

func since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

func none(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func value(p *int32) int32 {
	if p == nil {
		return 1 // the real server's default
	}
	return *p
}

// containers joins a property of all containers.
func containers(template corev1.PodTemplateSpec, what func(corev1.Container) string) string {
	var all []string
	for _, c := range template.Spec.Containers {
		all = append(all, what(c))
	}
	return strings.Join(all, ",")
}

// readinessGates returns the number of passed readiness gates, such as "1/2".
func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return none("")
	}
	open := 0
	for _, gate := range p.Spec.ReadinessGates {
		for _, c := range p.Status.Conditions {
			if c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue {
				open++
				break
			}
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

func podStatus(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	if p.Status.Reason != "" {
		return p.Status.Reason
	}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return c.State.Waiting.Reason
		case c.State.Terminated != nil && c.State.Terminated.Reason != "":
			return c.State.Terminated.Reason
		case c.State.Terminated != nil:
			return "ExitCode:" + strconv.Itoa(int(c.State.Terminated.ExitCode))
		}
	}
	return string(p.Status.Phase)
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func jobStatus(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			return string(c.Type)
		}
	}
	return "Running"
}
