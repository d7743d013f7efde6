package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

type historyFlags struct {
	namespace, at, between string
	showSecrets            bool
	managedFields          bool
}

func newHistoryCommand(e *env) *cobra.Command {
	var flags historyFlags
	cmd := &cobra.Command{
		Use:   "history TYPE NAME FILE",
		Short: "Show how an object changed in a recording",
		Long: `Show the changes of one object in a recording of tarn record, or in the folder of a journal,
field by field, and what controllers were recorded doing about it. With --at, show the object as it
was at that moment. No cluster is needed.

Times are 02:13 or 02:13:05 of a day of the recording, in local time, or complete ones such as
2026-01-31T02:13:05Z.`,
		Example: `  tarn history deploy web incident.tarn -n shop
  tarn history deploy web incident.tarn -n shop --at 02:13
  tarn history pods web-1 incident.tarn -n shop --between 02:10,02:20
  tarn history node node-7 /var/lib/operator/journal`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 3 {
				return usagef("specify type, name and recording, such as tarn history deploy web incident.tarn")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return history(cmd.Context(), e, flags, args[0], args[1], args[2])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.namespace, "namespace", "n", "default", "the `namespace` of the object, if its type has namespaces")
	f.StringVar(&flags.at, "at", "", "show the object at this `time`")
	f.StringVar(&flags.between, "between", "", "show the changes between two `times`, separated by a comma")
	f.BoolVar(&flags.showSecrets, "show-secrets", false, "show the data of Secrets")
	f.BoolVar(&flags.managedFields, "show-managed-fields", false, "show metadata.managedFields and metadata.resourceVersion")
	cmd.MarkFlagsMutuallyExclusive("at", "between")
	return cmd
}

// named reports whether a user's name of a type means a recorded resource.
func named(of *journal.Recorded, name string) bool {
	parts := strings.Split(of.Resource, "/")
	plural := parts[len(parts)-1]
	for _, n := range append([]string{plural, of.Kind}, of.Names...) {
		if len(parts) == 3 && strings.EqualFold(name, n+"."+parts[0]) || n != "" && strings.EqualFold(name, n) {
			return true
		}
	}
	return false
}

func history(ctx context.Context, e *env, flags historyFlags, kind, name, path string) error {
	from, to, bounded := strings.Cut(flags.between, ",")
	if flags.between != "" && !bounded {
		return usagef("--between needs two times, such as 02:10,02:20")
	}
	h := &objectHistory{screen: newScreen(e), render: fieldEdits{rendering{showSecrets: flags.showSecrets, noise: flags.managedFields}}}
	start := from
	if bounded {
		var err error
		if h.until, err = momentOf(path, to); err != nil {
			return err
		}
	} else if flags.at != "" {
		start = flags.at
	}
	is := func(key object.Key) bool {
		return key.Name == name && (key.Namespace == "" || key.Namespace == flags.namespace)
	}
	var types []string
	known := false
	r, err := replayed(e, path, start, apiserver.ReplayOptions{
		Speed: math.Inf(1),
		Only: func(of *journal.Recorded, key object.Key) bool {
			if !slices.Contains(types, of.Resource) {
				types = append(types, of.Resource)
			}
			match := named(of, kind)
			known = known || match
			return match && is(key)
		},
		Shown: func(ev apiserver.ReplayEvent) {
			if a := ev.Activity; a == nil || is(a.Key) || strings.Contains(a.Cause, flags.namespace+"/"+name) {
				h.show(ev)
			}
		},
	})
	if err != nil {
		return err
	}
	defer r.Close()
	if !known {
		slices.Sort(types)
		return usagef("the recording has no objects of type %s; it has %s", kind, strings.Join(types, ", "))
	}
	if flags.at == "" {
		if err := r.Play(ctx); err != nil {
			return err
		}
		if h.count == 0 {
			h.screen.say("no changes of %s/%s", kind, name)
		}
		return nil
	}
	for res, obj := range r.Objects {
		object := objectChange{res: res, obj: tree(obj), initial: true}
		if !flags.managedFields {
			object.obj.SetManagedFields(nil)
		}
		text, err := yamlText(h.render.visible(object).Object)
		if err == nil {
			_, err = fmt.Fprintf(e.out, "# %s\n%s", clockText(r.Now()), text)
		}
		return err
	}
	return fmt.Errorf("there was no %s/%s at %s", kind, name, clockText(r.Now()))
}

// objectHistory prints the changes of an object.
type objectHistory struct {
	screen *screen
	render fieldEdits
	until  time.Time // zero for the end
	count  int
}

func (h *objectHistory) show(ev apiserver.ReplayEvent) {
	if !h.until.IsZero() && ev.At.After(h.until) {
		return
	}
	lines := h.screen.blank()
	if ev.Activity != nil {
		lines.put(activityText(ev.Activity) + "\n")
	} else {
		change := objectChange{res: ev.Resource, key: ev.Key, kind: object.Updated, old: tree(ev.Old), obj: tree(ev.New)}
		switch ev.What {
		case "ADDED":
			change.kind = object.Added
		case "DELETED":
			change.kind = object.Deleted
		}
		_ = h.render.render(lines, []objectChange{change}) // never fails
	}
	if lines.text.Len() == 0 {
		return // only what every write changes
	}
	h.count++
	text := h.screen.blank()
	text.in(faint, ev.At.Local().Format("15:04:05.000")+" ")
	if by := managers(tree(ev.Old), tree(ev.New)); by != "" {
		text.put("by " + by + " ")
	}
	text.add(lines)
	_ = h.screen.print(text) // the printer keeps the error
}

// managers returns the field managers of a change.
func managers(old, obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	var before []metav1.ManagedFieldsEntry
	if old != nil {
		before = old.GetManagedFields()
	}
	var names []string
	for _, m := range obj.GetManagedFields() {
		same := func(b metav1.ManagedFieldsEntry) bool { return equality.Semantic.DeepEqual(b, m) }
		if !slices.ContainsFunc(before, same) && !slices.Contains(names, m.Manager) {
			names = append(names, m.Manager)
		}
	}
	return strings.Join(names, ", ")
}

// tree returns an object as a tree of fields; nil for none.
func tree(obj runtime.Object) *unstructured.Unstructured {
	if obj == nil {
		return nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		content = map[string]any{"error": fmt.Sprint(err)}
	}
	return &unstructured.Unstructured{Object: content}
}

// momentOf parses a time: a complete one, or a time of day, which is the last one in the recording.
func momentOf(path, text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	var clock time.Time
	err := error(nil)
	for _, layout := range []string{"15:04", "15:04:05"} {
		if clock, err = time.ParseInLocation(layout, text, time.Local); err == nil {
			break
		}
	}
	if err != nil {
		return time.Time{}, usagef("invalid time %q: must be such as 02:13, 02:13:05 or 2026-01-31T02:13:05Z", text)
	}
	var end time.Time
	for ev, err := range journal.Events(path) {
		if err != nil {
			break // reading it again returns the error
		}
		if ev.At.After(end) {
			end = ev.At
		}
	}
	end = end.Local()
	at := time.Date(end.Year(), end.Month(), end.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), time.Local)
	if at.After(end) {
		at = at.AddDate(0, 0, -1)
	}
	return at, nil
}

// readableRecording returns an error if a path is neither a file nor a folder that can be read.
func readableRecording(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return usagef("cannot read %s: %s", path, reason(err))
	}
	return nil
}
