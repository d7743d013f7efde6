//go:build upstream

package main

// What client-go's tests import and nothing else in this module does. The generated packages are
// not seen by "go mod tidy", so this file is.
import (
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "k8s.io/klog/v2/ktesting"
	_ "k8s.io/utils/clock/testing"
	_ "sigs.k8s.io/randfill"
)
