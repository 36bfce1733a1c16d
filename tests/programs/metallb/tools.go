//go:build tools

// Package metallb pins MetalLB, which a test deploys and takes addresses over from.
// Nothing here is compiled: the imports keep go.mod and go.sum complete.
package metallb

import (
	_ "go.universe.tf/metallb/controller"
	_ "go.universe.tf/metallb/speaker"
)
