package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// The generated clientset links every API group, which doubles the size of a controller.
func TestAControllerLinksNoGeneratedClientset(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".", "./controller", "./controller/leader", "./controller/recorder", "./wire/stream")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		if dep = strings.TrimSpace(dep); within(dep, "k8s.io/client-go/kubernetes") || within(dep, "k8s.io/client-go/applyconfigurations") {
			t.Errorf("a controller links %s", dep)
		}
	}
}
