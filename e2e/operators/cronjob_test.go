package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/operators/cronjob"
	"github.com/tarnproject/tarn/e2e/patience"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newCronJob(namespace, schedule string) *cronjob.CronJob {
	return &cronjob.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "test-cronjob", Namespace: namespace},
		Spec: cronjob.Spec{
			Schedule: schedule,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "test-container", Image: "test-image"}}, RestartPolicy: corev1.RestartPolicyOnFailure,
			}}}},
		},
	}
}

// The tutorial's test: an active Job that the CronJob controls appears in its status.
func TestTheStatusOfACronJobListsItsActiveJobs(t *testing.T) {
	onBoth(t, cronJobs, cronjob.Definition, func(t *testing.T, c client.Client, namespace string) {
		cronJob := newCronJob(namespace, "1 * * * *")
		create(t, c, cronJob)
		patience.Until(t, "the CronJob exists", func() bool {
			return c.Get(t.Context(), client.ObjectKeyFromObject(cronJob), cronJob) == nil
		})
		if cronJob.Spec.Schedule != "1 * * * *" || len(cronJob.Status.Active) > 0 {
			t.Errorf("created %+v", cronJob)
		}
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "test-job", Namespace: namespace},
			Spec:       *cronJob.Spec.JobTemplate.Spec.DeepCopy(),
		}
		if err := ctrl.SetControllerReference(cronJob, job, scheme); err != nil {
			t.Fatal(err)
		}
		create(t, c, job)
		job.Status.Active = 2
		if err := c.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		patience.Until(t, "the Job is in the status", func() bool {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(cronJob), cronJob)
			return err == nil && len(cronJob.Status.Active) == 1 && cronJob.Status.Active[0].Name == "test-job"
		})
	})
}

// day is a server in a bubble with a CronJob and what runs its Jobs.
type day struct {
	testing.TB
	client client.Client
	lasts  time.Duration // of each Job
	fails  bool          // each Job does
	seen   map[string]bool
	most   int // Jobs at the same time
}

// pass lets time pass, and runs the Jobs.
func (d *day) pass(t time.Duration) {
	d.Helper()
	for range t / time.Minute {
		<-time.After(time.Minute)
		var active int
		for _, job := range d.jobs() {
			d.seen[job.Name] = true
			if len(job.Status.Conditions) > 0 {
				continue
			}
			if time.Since(job.CreationTimestamp.Time) < d.lasts {
				active++
				continue
			}
			end := batchv1.JobComplete
			if d.fails {
				end = batchv1.JobFailed
			}
			job.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}
			if err := d.client.Status().Update(d.Context(), &job); err != nil {
				d.Fatal(err)
			}
		}
		d.most = max(d.most, active)
	}
}

func (d *day) jobs() []batchv1.Job {
	d.Helper()
	var list batchv1.JobList
	if err := d.client.List(d.Context(), &list); err != nil {
		d.Fatal(err)
	}
	return list.Items
}

// begin creates a CronJob at midnight.
func begin(t testing.TB, server *apiserver.Server, change func(*cronjob.CronJob)) *day {
	t.Helper()
	if err := server.LoadYAML(cronjob.Definition); err != nil {
		t.Fatal(err)
	}
	d := &day{TB: t, client: newClient(t, server.MemoryConfig()), lasts: 5 * time.Minute, seen: map[string]bool{}}
	cronJob := newCronJob("default", "*/30 * * * *")
	if err := (cronjob.Webhook{}).Default(t.Context(), cronJob); err != nil {
		t.Fatal(err)
	}
	change(cronJob)
	create(t, d.client, cronJob)
	return d
}

func TestADayOfACronJob(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cronjob.CronJob)
		lasts  time.Duration
		fails  bool
		seen   int // Jobs
		left   int // Jobs
		most   int // Jobs at the same time
	}{
		"every half hour":          {lasts: 5 * time.Minute, seen: 48, left: 3, most: 1},
		"long jobs side by side":   {lasts: 75 * time.Minute, seen: 48, left: 6, most: 3},
		"long jobs forbidden":      {change: func(c *cronjob.CronJob) { c.Spec.ConcurrencyPolicy = cronjob.ForbidConcurrent }, lasts: 75 * time.Minute, seen: 19, left: 4, most: 1},
		"long jobs replaced":       {change: func(c *cronjob.CronJob) { c.Spec.ConcurrencyPolicy = cronjob.ReplaceConcurrent }, lasts: 75 * time.Minute, seen: 48, left: 1, most: 1},
		"failures":                 {lasts: 5 * time.Minute, fails: true, seen: 48, left: 1, most: 1},
		"suspended":                {change: func(c *cronjob.CronJob) { c.Spec.Suspend = new(true) }, lasts: time.Minute},
		"a schedule that is wrong": {change: func(c *cronjob.CronJob) { c.Spec.Schedule = "never" }, lasts: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.Start(t, apiserver.Options{Schemas: schemas})
				change := test.change
				if change == nil {
					change = func(*cronjob.CronJob) {}
				}
				d := begin(t, server, change)
				d.lasts, d.fails = test.lasts, test.fails
				operator(cronJobs).start(t, server.MemoryConfig())
				<-time.After(30 * time.Second) // so that nothing happens at the same time as the rest
				d.pass(24*time.Hour + 10*time.Minute)
				if len(d.seen) != test.seen || d.most != test.most {
					t.Errorf("%d Jobs, at most %d at a time; want %d and %d", len(d.seen), d.most, test.seen, test.most)
				}
				if left := len(d.jobs()); left != test.left {
					t.Errorf("%d Jobs left, want %d", left, test.left)
				}
			})
		})
	}
}

// Wherever the operator crashes, each time of the schedule gets one Job.
func TestACronJobWhereverItsOperatorCrashes(t *testing.T) {
	opts := apiserver.ExploreOptions{Server: apiserver.Options{Schemas: schemas}, StaleCache: 2 * time.Second, Limit: 3 * time.Hour}
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, operator(cronJobs).run)
		d := begin(t, server, func(*cronjob.CronJob) {})
		<-time.After(30 * time.Second)
		d.pass(2*time.Hour + 10*time.Minute)
		var want []string
		for n := range 4 {
			want = append(want, fmt.Sprintf("test-cronjob-%d", time.Date(2000, 1, 1, 0, 30*(n+1), 0, 0, time.UTC).Unix()))
		}
		var got []string
		for name := range d.seen {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("Jobs %v, want %v", got, want)
		}
		if left := len(d.jobs()); left != 3 {
			t.Errorf("%d Jobs left", left)
		}
	})
}

// The tutorial's test of the webhook's functions.
func TestTheWebhookOfCronJobs(t *testing.T) {
	ctx, hook := context.Background(), cronjob.Webhook{}
	c := newCronJob("default", "*/5 * * * *")
	if err := hook.Default(ctx, c); err != nil {
		t.Fatal(err)
	}
	if c.Spec.ConcurrencyPolicy != cronjob.AllowConcurrent || *c.Spec.Suspend || *c.Spec.SuccessfulJobsHistoryLimit != 3 || *c.Spec.FailedJobsHistoryLimit != 1 {
		t.Errorf("the defaults are %+v", c.Spec)
	}
	c.Spec.ConcurrencyPolicy, *c.Spec.SuccessfulJobsHistoryLimit = cronjob.ForbidConcurrent, 5
	if err := hook.Default(ctx, c); err != nil || c.Spec.ConcurrencyPolicy != cronjob.ForbidConcurrent || *c.Spec.SuccessfulJobsHistoryLimit != 5 {
		t.Errorf("fields that were set are %+v, %v", c.Spec, err)
	}
	if _, err := hook.ValidateCreate(ctx, c); err != nil {
		t.Error(err)
	}
	bad := c.DeepCopy()
	bad.Name = strings.Repeat("a", 53)
	if _, err := hook.ValidateCreate(ctx, bad); err == nil || !strings.Contains(err.Error(), "must be no more than 52 characters") {
		t.Errorf("a long name: %v", err)
	}
	bad = c.DeepCopy()
	bad.Spec.Schedule = "invalid-cron-schedule"
	if _, err := hook.ValidateUpdate(ctx, c, bad); err == nil || !strings.Contains(err.Error(), "spec.schedule: Invalid value") {
		t.Errorf("a wrong schedule: %v", err)
	}
}
