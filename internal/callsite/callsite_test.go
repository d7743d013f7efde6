package callsite

import (
	"regexp"
	"testing"
)

func TestTestsCountAsOutside(t *testing.T) {
	got := Outside("github.com/tarnproject/tarn/internal/callsite")
	if !regexp.MustCompile(`^callsite/callsite_test\.go:\d+$`).MatchString(got) {
		t.Error(got)
	}
}

func TestFramesOfThePackageArePassedOver(t *testing.T) {
	if got := Outside("testing"); !regexp.MustCompile(`^callsite/callsite_test\.go:\d+$`).MatchString(got) {
		t.Error(got)
	}
	var got string
	func() { got = Outside("github.com/tarnproject/tarn/internal") }() // a prefix of the name is not the package
	if !regexp.MustCompile(`^callsite/callsite_test\.go:\d+$`).MatchString(got) {
		t.Error(got)
	}
}
