package cli

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestTheServerIsFoundBesideTarnOrInPath(t *testing.T) {
	self := func() (string, error) { return "/opt/bin/tarn", nil }
	has := func(paths ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			for _, path := range paths {
				if path == name || strings.HasSuffix(path, "/"+name) {
					return path, nil
				}
			}
			return "", exec.ErrNotFound
		}
	}
	for _, c := range []struct {
		arg0  string
		files []string
		want  []string
	}{
		{"tarn", []string{"/opt/bin/tarn-apiserver", "/usr/bin/tarn-apiserver"}, []string{"/opt/bin/tarn-apiserver"}},
		{"tarn", []string{"/usr/bin/tarn-apiserver"}, []string{"/usr/bin/tarn-apiserver"}},
		{"/tmp/go-build12/b001/exe/tarn", nil, []string{"go", "run", "./cmd/tarn-apiserver"}},
	} {
		if got, err := serverCommand(c.arg0, self, has(c.files...)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s with %v: %v, %v", c.arg0, c.files, got, err)
		}
	}
	if _, err := serverCommand("tarn", self, has()); err == nil || !strings.Contains(err.Error(), "go install") {
		t.Errorf("without the program: %v", err)
	}
}

// The command that takes over has the streams of this one, and its exit status is reported.
func TestACommandThatTakesOverDecidesTheExitStatus(t *testing.T) {
	var out, errs strings.Builder
	e := &env{in: strings.NewReader("in"), out: newPrinter(&out), err: newPrinter(&errs)}
	err := e.delegate(t.Context(), []string{"sh", "-c", "cat; echo complaint >&2; exit 2"})
	if status := exitStatus(0); !errors.As(err, &status) || status != exitUsage || out.String() != "in" || errs.String() != "complaint\n" {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
	if err := e.delegate(t.Context(), []string{"true"}); err != nil {
		t.Error(err)
	}
	if err := e.delegate(t.Context(), []string{"/does/not/exist"}); err == nil || !strings.Contains(err.Error(), "cannot run /does/not/exist") {
		t.Error(err)
	}
}
