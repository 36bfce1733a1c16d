//go:build tools

// Package programs pins the etcd that kubeadm's clusters run.
// Nothing here is compiled: the import keeps go.mod and go.sum complete.
package programs

import _ "go.etcd.io/etcd/server/v3"
