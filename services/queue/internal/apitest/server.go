package apitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is any Kubernetes object.
type object interface {
	runtime.Object
	metav1.Object
}

// Server is the API server of one cluster. All methods are safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu struct {
		sync.Mutex
		version uint64
		compact uint64
		objects map[string]map[string]object // by resource and namespace/name
		events  []event
		watches int
		broken  bool
		// unserved are the resources that the server has and does not serve.
		unserved map[string]bool
		// changed is closed whenever a watch may have something to send.
		changed chan struct{}
	}
}

// event is one change, or a bookmark if object is nil.
type event struct {
	version  uint64
	kind     watch.EventType
	resource string
	object   object
}

// These are groups that not all servers have. This server has of the group for volumes all but volumeattachments, and
// of the group for devices only DeviceTaintRules, which it does not serve at first.
const (
	storageV1     = "/apis/storage.k8s.io/v1"
	deviceV1beta2 = "/apis/resource.k8s.io/v1beta2"
	taintRules    = "devicetaintrules"
)

// resources maps the paths of lists to resources and their kinds.
var resources = map[string][2]string{
	"/api/v1/pods":                               {"pods", "Pod"},
	"/api/v1/nodes":                              {"nodes", "Node"},
	"/api/v1/namespaces":                         {"namespaces", "Namespace"},
	"/api/v1/services":                           {"services", "Service"},
	"/api/v1/replicationcontrollers":             {"replicationcontrollers", "ReplicationController"},
	"/apis/apps/v1/replicasets":                  {"replicasets", "ReplicaSet"},
	"/apis/apps/v1/statefulsets":                 {"statefulsets", "StatefulSet"},
	"/apis/policy/v1/poddisruptionbudgets":       {"poddisruptionbudgets", "PodDisruptionBudget"},
	"/apis/scheduling.k8s.io/v1/priorityclasses": {"priorityclasses", "PriorityClass"},
	"/api/v1/persistentvolumes":                  {"persistentvolumes", "PersistentVolume"},
	"/api/v1/persistentvolumeclaims":             {"persistentvolumeclaims", "PersistentVolumeClaim"},
	storageV1 + "/storageclasses":                {"storageclasses", "StorageClass"},
	storageV1 + "/csinodes":                      {"csinodes", "CSINode"},
	storageV1 + "/csidrivers":                    {"csidrivers", "CSIDriver"},
	storageV1 + "/csistoragecapacities":          {"csistoragecapacities", "CSIStorageCapacity"},
	deviceV1beta2 + "/" + taintRules:             {taintRules, "DeviceTaintRule"},
}

// New starts a server that has namespace kube-system with UID clusterUID. The caller must close it.
func New(clusterUID string) *Server {
	s := &Server{}
	s.mu.version = 100
	s.mu.objects = map[string]map[string]object{}
	s.mu.changed = make(chan struct{})
	s.mu.unserved = map[string]bool{taintRules: true}
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(clusterUID)}})
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Close ends all watches and stops the server.
func (s *Server) Close() {
	s.Break()
	s.http.Close()
}

// Config returns a client configuration for the server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.http.URL} }

// resourceOf returns the resource of an object and sets the object's group, version and kind.
func resourceOf(o object) string {
	group := "v1"
	kind := ""
	resource := ""
	switch o.(type) {
	case *corev1.Pod:
		kind, resource = "Pod", "pods"
	case *corev1.Node:
		kind, resource = "Node", "nodes"
	case *corev1.Namespace:
		kind, resource = "Namespace", "namespaces"
	case *corev1.Service:
		kind, resource = "Service", "services"
	case *corev1.ReplicationController:
		kind, resource = "ReplicationController", "replicationcontrollers"
	case *appsv1.ReplicaSet:
		group = "apps/v1"
		kind = "ReplicaSet"
		resource = "replicasets"
	case *appsv1.StatefulSet:
		group = "apps/v1"
		kind = "StatefulSet"
		resource = "statefulsets"
	case *policyv1.PodDisruptionBudget:
		group = "policy/v1"
		kind = "PodDisruptionBudget"
		resource = "poddisruptionbudgets"
	case *schedulingv1.PriorityClass:
		group = "scheduling.k8s.io/v1"
		kind = "PriorityClass"
		resource = "priorityclasses"
	default:
		return storageResourceOf(o)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(group, kind))
	return resource
}

// storageResourceOf is resourceOf for volumes and related kinds.
func storageResourceOf(o object) string {
	group := "storage.k8s.io/v1"
	kind := ""
	resource := ""
	switch o.(type) {
	case *corev1.PersistentVolume:
		group = "v1"
		kind = "PersistentVolume"
		resource = "persistentvolumes"
	case *corev1.PersistentVolumeClaim:
		group = "v1"
		kind = "PersistentVolumeClaim"
		resource = "persistentvolumeclaims"
	case *storagev1.StorageClass:
		kind, resource = "StorageClass", "storageclasses"
	case *storagev1.CSINode:
		kind, resource = "CSINode", "csinodes"
	case *storagev1.CSIDriver:
		kind, resource = "CSIDriver", "csidrivers"
	case *storagev1.CSIStorageCapacity:
		kind, resource = "CSIStorageCapacity", "csistoragecapacities"
	case *resourcev1beta2.DeviceTaintRule:
		group = "resource.k8s.io/v1beta2"
		kind, resource = "DeviceTaintRule", taintRules
	default:
		panic(fmt.Sprintf("apitest: no resource for %T", o))
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(group, kind))
	return resource
}

// Set creates or replaces an object and returns its resourceVersion. An object without a UID gets one derived from
// its name.
func (s *Server) Set(o object) uint64 {
	o = o.DeepCopyObject().(object)
	resource := resourceOf(o)
	key := o.GetNamespace() + "/" + o.GetName()
	if o.GetUID() == "" {
		o.SetUID(types.UID(o.GetName() + "-uid"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.mu.objects[resource] == nil {
		s.mu.objects[resource] = map[string]object{}
	}
	if _, ok := s.mu.objects[resource][key]; ok {
		kind = watch.Modified
	}
	s.mu.objects[resource][key] = o
	return s.record(kind, resource, o)
}

// Delete removes an object and returns the resourceVersion of the deletion.
func (s *Server) Delete(o object) uint64 {
	resource := resourceOf(o)
	key := o.GetNamespace() + "/" + o.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.mu.objects[resource][key]
	if !ok {
		panic("apitest: delete of " + key + ", which is not there")
	}
	delete(s.mu.objects[resource], key)
	return s.record(watch.Deleted, resource, was.DeepCopyObject().(object))
}

// Bookmark advances the resourceVersion and sends a bookmark to every watch.
func (s *Server) Bookmark() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(watch.Bookmark, "", nil)
}

func (s *Server) record(kind watch.EventType, resource string, o object) uint64 {
	s.mu.version++
	if o != nil {
		o.SetResourceVersion(strconv.FormatUint(s.mu.version, 10))
	}
	s.mu.events = append(s.mu.events, event{s.mu.version, kind, resource, o})
	s.wake()
	return s.mu.version
}

func (s *Server) wake() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// Break ends all watches now; clients may resume them where they were.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.watches++
	s.wake()
}

// Compact discards the history: all watches end, and a watch that resumes from before it must list again.
func (s *Server) Compact() {
	s.mu.Lock()
	s.mu.version++
	s.mu.compact = s.mu.version
	s.mu.events = nil
	s.mu.Unlock()
	s.Break()
}

// Down makes every request fail with 503 until it is called with false.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	s.mu.broken = down
	s.mu.Unlock()
	s.Break()
}

// ServeTaintRules begins or ceases to serve DeviceTaintRules, as a restart with another flag does: all watches end, and
// the objects stay in the storage.
func (s *Server) ServeTaintRules(serve bool) {
	s.mu.Lock()
	s.mu.unserved[taintRules] = !serve
	s.mu.Unlock()
	s.Break()
}

// serves reports whether a resource is served.
func (s *Server) serves(resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.mu.unserved[resource]
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.mu.broken
	s.mu.Unlock()
	if down {
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/"); ok {
		s.get(w, "namespaces", "/"+name)
		return
	}
	if r.URL.Path == storageV1 || r.URL.Path == deviceV1beta2 {
		s.discover(w, r.URL.Path)
		return
	}
	resource, ok := resources[r.URL.Path]
	switch {
	case !ok || !s.serves(resource[0]):
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.URL.Query().Get("watch") == "":
		s.list(w, r.URL.Path, resource)
	default:
		s.watch(w, r, resource[0])
	}
}

// discover lists the resources of a group.
func (s *Server) discover(w http.ResponseWriter, group string) {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: strings.TrimPrefix(group, "/apis/"),
	}
	for path, r := range resources {
		if strings.HasPrefix(path, group+"/") && s.serves(r[0]) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r[0], Kind: r[1]})
		}
	}
	write(w, list)
}

func (s *Server) get(w http.ResponseWriter, resource, key string) {
	s.mu.Lock()
	o, ok := s.mu.objects[resource][key]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	write(w, o)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	write(w, status(code, reason))
}

func status(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason,
	}
}

// write sends JSON. It ignores errors of clients that have disconnected.
func write(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) list(w http.ResponseWriter, path string, resource [2]string) {
	s.mu.Lock()
	items := s.current(resource[0])
	version := s.mu.version
	s.mu.Unlock()
	apiVersion := "v1"
	if group, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"+resource[0]), "/apis/"); ok {
		apiVersion = group
	}
	write(w, map[string]any{
		"kind": resource[1] + "List", "apiVersion": apiVersion,
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(version, 10)}, "items": items,
	})
}

func (s *Server) current(resource string) []object {
	objects := s.mu.objects[resource]
	items := make([]object, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		items = append(items, objects[key])
	}
	return items
}

// GoBack simulates a restore from a backup: the server is at version, which is lower than before, and objects that
// have changed since have that version at most.
func (s *Server) GoBack(version uint64) { s.Restore(version, version) }

// Restore is GoBack for a server that has reached another version since, without a change that concerns these tests.
func (s *Server) Restore(version, since uint64) {
	s.mu.Lock()
	s.mu.version = since
	s.mu.compact = since
	s.mu.events = nil
	for _, all := range s.mu.objects {
		for key, o := range all {
			if rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil && rv > version {
				o = o.DeepCopyObject().(object)
				o.SetResourceVersion(strconv.FormatUint(version, 10))
				all[key] = o
			}
		}
	}
	s.mu.Unlock()
	s.Break()
}
