{{/* Labels that select the pods of one component; they can never change. Arguments: root, component. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: {{ .root.Values.name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: berth
{{- end }}

{{/* Labels of an object of one component. Arguments: root, component. */}}
{{- define "berth.labels" -}}
{{- include "berth.selector" . }}
{{- range $key, $value := .root.Values.commonLabels }}
{{- include "berth.refuseTaken" (dict "field" "commonLabels" "name" $key "component" $.component) }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "berth.metadata" -}}
name: {{ .root.Values.name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- end }}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* What every container may do: nothing. */}}
{{- define "berth.confined" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "berth.unprivileged" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* URLs of a store: those that are named, or the members that the chart deploys.
     Arguments: root, named, store, scheme, port. */}}
{{- define "berth.members" -}}
{{- $name := .root.Values.name }}
{{- $urls := list }}
{{- range until (int (index .root.Values.stores .store).replicas) }}
{{- $urls = append $urls (printf "%s://%s-%s-%d.%s-%s:%d" $.scheme $name $.store . $name $.store $.port) }}
{{- end }}
{{- join "," (.named | default $urls) }}
{{- end }}

{{- define "berth.etcdEndpoints" -}}
{{- include "berth.members" (dict "root" . "store" "etcd" "named" .Values.stores.etcd.endpoints
  "scheme" (include "berth.scheme" .) "port" 2379) }}
{{- end }}

{{- define "berth.natsURLs" -}}
{{- include "berth.members" (dict "root" . "store" "nats" "named" .Values.stores.nats.urls
  "scheme" (ternary "tls" "nats" .Values.tls.enabled) "port" 4222) }}
{{- end }}

{{/* Arguments by which a process reaches the stores. */}}
{{- define "berth.storeArgs" -}}
- --etcd-endpoints={{ include "berth.etcdEndpoints" . }}
- --etcd-prefix={{ .Values.stores.etcd.prefix }}
- --nats-url={{ include "berth.natsURLs" . }}
{{- if .Values.tls.enabled }}
- --etcd-ca-file=/etc/berth/tls/ca.crt
- --etcd-cert-file=/etc/berth/tls/tls.crt
- --etcd-key-file=/etc/berth/tls/tls.key
- --nats-ca-file=/etc/berth/tls/ca.crt
- --nats-cert-file=/etc/berth/tls/tls.crt
- --nats-key-file=/etc/berth/tls/tls.key
{{- end }}
{{- end }}

{{- define "berth.serveArgs" -}}
- --http-address=:{{ .Values.http.port }}
{{- if .Values.tls.enabled }}
- --http-cert-file=/etc/berth/tls/tls.crt
- --http-key-file=/etc/berth/tls/tls.key
- --http-client-ca-file=/etc/berth/tls/ca.crt
{{- with .Values.tls.metricsReaders }}
- --http-allowed-names={{ join "," . }}
{{- end }}
{{- with .Values.tls.administrators }}
- --http-admin-names={{ join "," . }}
{{- end }}
{{- if .Values.tls.tokenReview }}
- --http-token-review
{{- end }}
{{- end }}
{{- end }}

{{- define "berth.logArgs" -}}
- --log-level={{ .Values.logging.level }}
- --log-format={{ .Values.logging.format }}
{{- end }}

{{/* livez says that the process answers; readyz that it has what it needs, which does not
     end a process that waits for a store to come back. */}}
{{- define "berth.probes" -}}
ports:
- name: http
  containerPort: {{ .Values.http.port }}
startupProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "berth.scheme" . | upper }}}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "berth.scheme" . | upper }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ include "berth.scheme" . | upper }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "berth.scheme" -}}
{{ if .Values.tls.enabled }}https{{ else }}http{{ end }}
{{- end }}

{{- define "berth.mounts" -}}
- name: config
  mountPath: /etc/berth/config
  readOnly: true
{{- if .root.Values.tls.enabled }}
- name: tls
  mountPath: /etc/berth/tls
  readOnly: true
{{- end }}
{{- with include "berth.extraVolumeMounts" . }}
{{ . }}
{{- end }}
{{- end }}

{{- define "berth.volumes" -}}
- name: config
  configMap:
    name: {{ .root.Values.name }}-config
{{- if .root.Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ .root.Values.name }}-{{ .component }}-tls
    defaultMode: 0440
{{- end }}
{{- with include "berth.extraVolumes" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* The files that the services read, in one text. */}}
{{- define "berth.configuration" -}}
{{ toYaml .Values.config }}{{ toYaml .Values.policy }}
{{- end }}

{{/* A service: Deployment, disruption budget, service account, Service for metrics.
     Arguments: root, component, values, kubernetes (whether it has credentials), args. */}}
{{- define "berth.service" -}}
{{- $pods := merge (dict "configuration" (include "berth.configuration" .root)) . }}
{{ include "berth.serviceAccount" . }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  {{- if not .autoscaled }}
  replicas: {{ .values.replicas }}
  {{- else }}
  {{- with lookup "apps/v1" "Deployment" .root.Release.Namespace (printf "%s-%s" .root.Values.name .component) }}
  # As many as run: without the field, Kubernetes would take what an earlier release has set back to its default, one.
  # Not none, with which the autoscaler is off.
  replicas: {{ max 1 .spec.replicas }}
  {{- end }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      {{- include "berth.podMetadata" $pods | nindent 6 }}
    spec:
      serviceAccountName: {{ .root.Values.name }}-{{ .component }}
      automountServiceAccountToken: {{ or .kubernetes (.root.Values.tls.tokenReview | default false) }}
      enableServiceLinks: false
      {{- include "berth.placement" . | nindent 6 }}
      securityContext:
        {{- include "berth.unprivileged" . | nindent 8 }}
      terminationGracePeriodSeconds: 30
      containers:
      - name: {{ .component }}
        image: {{ include "berth.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        - run
        - {{ .component }}
        {{- include "berth.storeArgs" .root | nindent 8 }}
        {{- if .root.Values.tls.enabled }}
        - --nats-inbox-prefix=_INBOX.{{ .root.Values.name }}-{{ .component }}
        {{- end }}
        {{- with .args }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        - --config=/etc/berth/config/scheduler.yaml
        {{- include "berth.serveArgs" .root | nindent 8 }}
        {{- include "berth.logArgs" .root | nindent 8 }}
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        env:
        - name: GOMEMLIMIT
          value: {{ .values.goMemoryLimit }}
        {{- with include "berth.extraEnv" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "berth.probes" .root | nindent 8 }}
        resources:
          {{- toYaml .values.resources | nindent 10 }}
        securityContext:
          {{- include "berth.confined" . | nindent 10 }}
        volumeMounts:
          {{- include "berth.mounts" . | nindent 10 }}
      volumes:
        {{- include "berth.volumes" . | nindent 8 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  selector:
    {{- include "berth.selector" . | nindent 4 }}
  ports:
  - name: http
    port: {{ .root.Values.http.port }}
    targetPort: http
{{- end }}
