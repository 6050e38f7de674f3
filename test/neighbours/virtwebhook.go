package neighbours

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/ca"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	evictionPath = "/launcher-eviction-validate"
	// headersWithin bounds a request of the API server.
	headersWithin = 10 * time.Second
)

// serve starts the webhook and registers it.
func (v *virt) serve(ctx context.Context) error {
	dir := filepath.Join(v.s.Dir, "kubevirt")
	files, err := certificates(dir, "kubevirt", loopback)
	if err != nil {
		return err
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(evictionPath, func(w http.ResponseWriter, r *http.Request) { v.review(ctx, w, r) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headersWithin}
	v.group.Go(func() {
		err := server.ServeTLS(listener, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if !errors.Is(err, http.ErrServerClosed) {
			v.fail(err)
		}
	})
	v.s.AtEnd(server.Shutdown)
	return v.register(ctx, "https://"+address+evictionPath, files[ca.CertFile])
}

func (v *virt) register(ctx context.Context, url string, authority []byte) error {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "virt-api-validator"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "virt-launcher-eviction-interceptor.kubevirt.io",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"},
				},
			}},
		}},
	}
	hooks := v.s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := hooks.Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		return err
	}
	v.s.Logf("eviction webhook at %s, authority %s", url, base64.StdEncoding.EncodeToString(authority)[:16])
	return v.probe(ctx)
}

// probe waits until the API server asks the webhook: it learns of a configuration a moment after it exists.
func (v *virt) probe(ctx context.Context) error {
	labels := map[string]string{launcherLabel: launcher, machineLabel: "probe"}
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "none"}}, SchedulerName: "none"},
	}
	if _, err := v.pods().Create(ctx, probe, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := v.s.Eventually(ctx, time.Minute, "the eviction webhook is asked", func(ctx context.Context) (string, error) {
		err := v.pods().EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: probe.Name, Namespace: virtNamespace},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
		if err != nil {
			return "", nil //nolint:nilerr // it was refused, as it should be
		}
		return "it is not", nil
	})
	return errors.Join(err, v.pods().Delete(ctx, probe.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
}

// review answers the API server about one eviction.
func (v *virt) review(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview", http.StatusBadRequest)
		return
	}
	pod, err := v.pods().Get(ctx, review.Request.Name, metav1.GetOptions{})
	allowed, message := err != nil || review.Request.Namespace != virtNamespace, ""
	if !allowed {
		allowed, message = v.decide(ctx, pod, review.Request)
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: allowed}
	if !allowed {
		review.Response.Result = &metav1.Status{
			Message: message, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		v.fail(err)
	}
}

// decide begins the migration of a machine whose pod is to be evicted. What is asked again meanwhile is left to the
// budget, which refuses it.
func (v *virt) decide(ctx context.Context, pod *corev1.Pod, request *admissionv1.AdmissionRequest) (bool, string) {
	if pod.Labels[launcherLabel] != launcher || hasRun(pod) {
		return true, ""
	}
	name := pod.Labels[machineLabel]
	message := fmt.Sprintf("%s %q", evacuating, virtNamespace+"/"+name)
	eviction, dry := evictionIn(request)
	if dry {
		return false, message
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.asked.evictions++
	m := v.mu.machines[name]
	if m == nil || m.pod != pod.Name || m.evacuates {
		return true, ""
	}
	m.evacuates = true
	v.mu.asked.begun++
	if eviction.Annotations["requested-by"] != "" && eviction.Annotations["reason"] != "" {
		v.mu.asked.signed++
	}
	v.group.Go(func() {
		if err := v.migrate(ctx, m); err != nil && ctx.Err() == nil {
			v.fail(err)
		}
	})
	return false, message
}

// evictionIn returns the Eviction of a request, and whether it is only tried. The options for the deletion say that,
// and the API server does not repeat it in the request.
func evictionIn(request *admissionv1.AdmissionRequest) (eviction policyv1.Eviction, dry bool) {
	dry = ptr.Deref(request.DryRun, false)
	if err := json.Unmarshal(request.Object.Raw, &eviction); err != nil || eviction.DeleteOptions == nil {
		return eviction, dry
	}
	return eviction, dry || len(eviction.DeleteOptions.DryRun) > 0
}

// watch looks after machines whose pods end: they have stopped, and start again in a new pod.
func (v *virt) watch(ctx context.Context) error {
	list, err := v.pods().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return v.pods().Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	v.group.Go(func() {
		for event := range stream.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				v.fail(fmt.Errorf("the watch of machines' pods sent %s: %+v", event.Type, event.Object))
				return
			}
			if err := v.ended(ctx, pod, event.Type == watch.Deleted); err != nil && ctx.Err() == nil {
				v.fail(err)
			}
		}
	})
	return nil
}

func (v *virt) ended(ctx context.Context, pod *corev1.Pod, deleted bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.mu.machines[pod.Labels[machineLabel]]
	if m == nil || m.pod != pod.Name || !deleted && pod.DeletionTimestamp == nil && !hasRun(pod) {
		return nil
	}
	again := m.next("")
	m.pod, m.stopped = again.Name, m.stopped+1
	_, err := v.pods().Create(ctx, again, metav1.CreateOptions{})
	return err
}

func (v *virt) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.err = errors.Join(v.mu.err, err)
}

// tally is what became of all machines.
type tally struct {
	asked
	migrated, stopped, moving int
}

// look returns what became of the machines until now, and what went wrong in playing KubeVirt.
func (v *virt) look() (tally, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := tally{asked: v.mu.asked}
	for _, m := range v.mu.machines {
		t.migrated += m.migrated
		t.stopped += m.stopped
		if m.evacuates {
			t.moving++
		}
	}
	return t, v.mu.err
}
