package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

type recordFlags struct {
	watchFlags
	out    string
	length time.Duration
	redact bool
}

func newRecordCommand(e *env) *cobra.Command {
	var flags recordFlags
	cmd := &cobra.Command{
		Use:   "record TYPE... -o FILE",
		Short: "Record objects and their changes in a file",
		Long: `Record the objects of one or more resources and then every change, with the time at which it
arrived, until interrupted or for the time of --for. The file is readable by its owner only, at
any time up to what was written. tarn history shows what is in it, and tarn replay serves it as
an API server.

The values of Secrets are not recorded. --redact also leaves out all other text that is not
needed to replay: what remains are names, namespaces, UIDs, labels, owners, times, numbers,
states and references. Check that names may be shared before you attach the file to a report.`,
		Example: `  tarn record pods,deploy -A -o incident.tarn       # until Ctrl-C
  tarn record pods -n shop --for 10m -o shop.tarn
  tarn record deploy,rs,pods -A --redact -o report.tarn
  tarn history deploy web -n shop incident.tarn     # what is in it`,
		Args:              resourceArgs,
		ValidArgsFunction: e.completeResources,
		RunE:              func(cmd *cobra.Command, args []string) error { return record(cmd.Context(), e, flags, args) },
	}
	e.addCluster(cmd)
	flags.selectionFlags.add(cmd.Flags())
	cmd.Flags().StringVarP(&flags.out, "output", "o", "", "the `file` to write, which must not exist")
	cmd.Flags().DurationVar(&flags.length, "for", 0, "how long to record (default until interrupted)")
	cmd.Flags().BoolVar(&flags.redact, "redact", false, "leave out text that is not needed to replay")
	cmd.Flags().BoolVar(&flags.showSecrets, "show-secrets", false, "record the data of Secrets")
	return cmd
}

// recorder writes what a view shows to a recording. It implements [renderer].
type recorder struct {
	flags   recordFlags
	view    *view
	file    *journal.Recording
	mirrors map[object.Resource]*journal.Recorded

	objects, changes int // that were recorded
}

func record(ctx context.Context, e *env, flags recordFlags, args []string) (err error) {
	switch {
	case flags.out == "":
		return usagef("specify the file to write: -o incident.tarn")
	case flags.length < 0:
		return usagef("--for must not be negative")
	case flags.redact && flags.showSecrets:
		return usagef("--redact and --show-secrets cannot be combined")
	}
	if err := flags.check(e); err != nil {
		return err
	}
	r := &recorder{flags: flags, mirrors: map[object.Resource]*journal.Recorded{}}
	flags.managedFields = true // server-side apply on the replayed objects needs them
	v := &view{flags: flags.watchFlags, screen: newScreen(e), renderer: r, synced: r.complete, progress: r.progress}
	r.view = v
	found, done, err := v.open(ctx, e, args, false)
	if err != nil {
		return err
	}
	defer done()
	for _, t := range found {
		if t.name != "" {
			return usagef("%s/%s names an object; use %[1]s --field-selector metadata.name=%[2]s", t.Discovered, t.name)
		}
		r.mirrors[t.Resource] = &journal.Recorded{
			Identity: journal.Identity{Resource: t.GVR().GroupVersion().String() + "/" + t.GVR().Resource, Labels: flags.labels, Fields: flags.fields, Form: "JSON"},
			Kind:     t.Kind, Namespaced: t.Namespaced, Names: append([]string{t.Singular}, t.ShortNames...),
		}
	}
	if r.file, err = journal.NewRecording(flags.out); errors.Is(err, fs.ErrExist) {
		return usagef("%s exists; choose another file with -o, or delete it", flags.out)
	} else if err != nil {
		return fmt.Errorf("cannot write %s: %s", flags.out, reason(err))
	}
	if flags.length > 0 {
		limited, cancel := context.WithTimeout(ctx, flags.length)
		defer cancel()
		ctx = limited
	}
	err = v.run(ctx)
	if closed := r.file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("cannot write %s: %s", flags.out, reason(closed))
	}
	v.mu.Lock() // a handler may still run if the output is blocked
	defer v.mu.Unlock()
	e.say("%s: %s", flags.out, r.progress())
	return err
}

// progress says what was recorded.
func (r *recorder) progress() string {
	return "recorded " + counted(r.objects, "object") + " and " + counted(r.changes, "change") + ", " + byteText(r.file.Size())
}

// render records changes of one resource. It prints nothing.
func (r *recorder) render(_ *page, all []objectChange) error {
	var objects, changes []journal.Entry
	for _, h := range all {
		entry := journal.Entry{Kind: h.kind, Key: h.key, UID: object.UID(h.obj.GetUID()), Version: object.Version(h.obj.GetResourceVersion())}
		switch h.kind {
		case object.Added, object.Updated:
			content := h.obj.Object
			if r.flags.redact || !r.flags.showSecrets && isSecret(h.res, h.obj) {
				content = masking.Redacted(content)
			}
			data, err := json.Marshal(content)
			if err != nil {
				return fmt.Errorf("%s cannot be recorded: %w", h.name(), err)
			}
			entry.Data = data
		default:
			if h.unseen {
				entry.Version = "" // the one of the last known state
			}
		}
		if h.initial {
			objects = append(objects, entry)
		} else {
			changes = append(changes, entry)
		}
	}
	r.objects, r.changes = r.objects+len(objects), r.changes+len(changes)
	of := r.mirrors[all[0].res]
	var err error
	if len(objects) > 0 {
		err = r.file.Objects(of, objects)
	}
	if len(changes) > 0 && err == nil {
		err = r.file.Changes(of, time.Now(), changes)
	}
	r.failed(err)
	return nil
}

// complete records that a mirror has its initial state.
func (r *recorder) complete(s *viewed) { r.failed(r.file.Complete(r.mirrors[s.res], time.Now())) }

// failed ends the view if the file cannot be written.
func (r *recorder) failed(err error) {
	if err != nil {
		r.view.fail(fmt.Errorf("cannot write %s: %s", r.flags.out, reason(err)))
	}
}
