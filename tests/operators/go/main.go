// An operator as one writes it with controller-runtime: a manager with caches, a
// reconciler that owns a Deployment and a ConfigMap, a finalizer, the status
// through its subresource.
package main

import (
	"context"
	"flag"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/controller-runtime"

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mill"}

type reconciler struct{ client.Client }

func newMill() *unstructured.Unstructured {
	mill := &unstructured.Unstructured{}
	mill.SetGroupVersionKind(kind)
	return mill
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	mill := newMill()
	if err := r.Get(ctx, request.NamespacedName, mill); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !mill.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, r.farewell(ctx, mill)
	}
	if controllerutil.AddFinalizer(mill, finalizer) {
		return ctrl.Result{}, r.Update(ctx, mill)
	}
	if err := r.children(ctx, mill); err != nil {
		return ctrl.Result{}, err
	}
	phase, _, _ := unstructured.NestedString(mill.Object, "status", "phase")
	seen, _, _ := unstructured.NestedInt64(mill.Object, "status", "observedGeneration")
	if phase == "Grinding" && seen == mill.GetGeneration() {
		return ctrl.Result{}, nil
	}
	mill.Object["status"] = map[string]any{"phase": "Grinding", "observedGeneration": mill.GetGeneration()}
	return ctrl.Result{}, r.Status().Update(ctx, mill)
}

func (r *reconciler) children(ctx context.Context, mill *unstructured.Unstructured) error {
	meta := metav1.ObjectMeta{Name: mill.GetName(), Namespace: mill.GetNamespace()}
	stones, _, _ := unstructured.NestedInt64(mill.Object, "spec", "stones")
	grain, _, _ := unstructured.NestedString(mill.Object, "spec", "grain")
	deployment := &appsv1.Deployment{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"mill": mill.GetName()}
		replicas := int32(stones)
		deployment.Spec.Replicas = &replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "stone", Image: "example.com/stone:1"}}
		}
		return ctrl.SetControllerReference(mill, deployment, r.Scheme())
	}); err != nil {
		return err
	}
	config := &corev1.ConfigMap{ObjectMeta: meta}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"grain": grain}
		return ctrl.SetControllerReference(mill, config, r.Scheme())
	})
	return err
}

// Before a mill goes, what it ground is noted.
func (r *reconciler) farewell(ctx context.Context, mill *unstructured.Unstructured) error {
	if !controllerutil.ContainsFinalizer(mill, finalizer) {
		return nil
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mill.GetName() + "-ended", Namespace: mill.GetNamespace()}}
	if err := r.Create(ctx, note); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	controllerutil.RemoveFinalizer(mill, finalizer)
	return r.Update(ctx, mill)
}

func main() {
	namespace := flag.String("namespace", "default", "where to look after mills")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
	})
	if err == nil {
		err = ctrl.NewControllerManagedBy(manager).For(newMill()).Owns(&appsv1.Deployment{}).
			Owns(&corev1.ConfigMap{}).Complete(&reconciler{manager.GetClient()})
	}
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}
