{{/* Labels of an object of one component. Arguments: root, component. */}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: {{ .root.Values.name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: berth
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

{{/* Where the pods go: not two of one component on a node or in a zone while there are others. */}}
{{- define "berth.placement" -}}
schedulerName: {{ .root.Values.bootstrapSchedulerName }}
priorityClassName: {{ .root.Values.name }}-control-plane
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: {{ .apart | default "ScheduleAnyway" }}
  labelSelector:
    matchLabels:
      {{- include "berth.labels" . | nindent 6 }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "berth.labels" . | nindent 6 }}
{{- end }}

{{/* Arguments by which a process reaches the stores. */}}
{{- define "berth.storeArgs" -}}
- --etcd-endpoints={{ join "," .Values.stores.etcd.endpoints }}
- --etcd-prefix={{ .Values.stores.etcd.prefix }}
- --nats-url={{ join "," .Values.stores.nats.urls }}
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
{{- end }}

{{/* With the configuration's digest, so that pods are replaced when it changes. */}}
{{- define "berth.podMetadata" -}}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- if .root.Values.rollOnChange }}
annotations:
  berth.dev/configuration: {{ printf "%s%s" (toYaml .root.Values.config) (toYaml .root.Values.policy) | sha256sum | trunc 16 | quote }}
{{- end }}
{{- end }}

{{/* A service: Deployment, disruption budget, service account, Service for metrics.
     Arguments: root, component, values, kubernetes (whether it has credentials), args. */}}
{{- define "berth.service" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  {{- if not .autoscaled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "berth.labels" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      {{- include "berth.podMetadata" . | nindent 6 }}
    spec:
      serviceAccountName: {{ .root.Values.name }}-{{ .component }}
      automountServiceAccountToken: {{ .kubernetes }}
      enableServiceLinks: false
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
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
        env:
        - name: GOMEMLIMIT
          value: {{ .values.goMemoryLimit }}
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
      {{- include "berth.labels" . | nindent 6 }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  selector:
    {{- include "berth.labels" . | nindent 4 }}
  ports:
  - name: http
    port: {{ .root.Values.http.port }}
    targetPort: http
{{- end }}
