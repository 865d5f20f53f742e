{{- define "mediagate.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* The labels that select all pods of a release. */}}
{{- define "mediagate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mediagate.labels" -}}
{{ include "mediagate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "mediagate.image" -}}
{{ required "image.repository: where is the container?" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A variable whose value is a key of a Secret. */}}
{{- define "mediagate.secret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ required (printf "secrets, %s: name is missing" .name) .from.name }}
      key: {{ required (printf "secrets, %s: key is missing" .name) .from.key }}
{{- end }}

{{- define "mediagate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mediagate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The variables that serve and worker have in common; takes root, component and own (their values). */}}
{{- define "mediagate.env" -}}
- name: MEDIAGATE_CONFIG
  value: /etc/mediagate/mediagate.toml
- name: MEDIAGATE_LISTEN
  value: 0.0.0.0:8080
- name: MEDIAGATE_METRICS_LISTEN
  value: 0.0.0.0:9090
- name: MEDIAGATE_PUBLIC_URL
  value: {{ required "publicUrl is missing" .root.Values.publicUrl | quote }}
# The migration Job has done that.
- name: MEDIAGATE_MIGRATE
  value: never
- name: MEDIAGATE_DRAIN_DELAY
  value: {{ .root.Values.drainSeconds | int }}s
- name: MEDIAGATE_SHUTDOWN_GRACE
  value: {{ .root.Values.graceSeconds | int }}s
- name: MEDIAGATE_WORKERS
  value: {{ .own.workers | int | quote }}
- name: MEDIAGATE_LOG_FORMAT
  value: json
{{- if not .root.Values.media.claim }}
{{- if not (hasPrefix "s3://" .root.Values.media.store) }}
{{- fail "media.store: replicas share media through s3://bucket/prefix, or a volume (media.claim)" }}
{{- end }}
- name: MEDIAGATE_MEDIA_STORE
  value: {{ .root.Values.media.store | quote }}
{{- with .root.Values.media.endpoint }}
- name: MEDIAGATE_MEDIA_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with .root.Values.media.region }}
- name: MEDIAGATE_MEDIA_REGION
  value: {{ . | quote }}
{{- end }}
{{- with .root.Values.media.delivery }}
- name: MEDIAGATE_MEDIA_DELIVERY
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .root.Values.otlp }}
- name: MEDIAGATE_TELEMETRY_OTLP
  value: {{ . | quote }}
{{- end }}
{{ include "mediagate.secret" (dict "name" "MEDIAGATE_DATABASE" "from" .root.Values.secrets.database) }}
{{ include "mediagate.secret" (dict "name" "MEDIAGATE_FIRST_KEY" "from" .root.Values.secrets.firstKey) }}
{{- with .root.Values.secrets.signingSecret }}
{{ include "mediagate.secret" (dict "name" "MEDIAGATE_SIGNING_SECRET" "from" .) }}
{{- end }}
{{- with .root.Values.secrets.mediaAccessKey }}
{{ include "mediagate.secret" (dict "name" "MEDIAGATE_MEDIA_ACCESS_KEY" "from" .) }}
{{- end }}
{{- with .root.Values.secrets.mediaSecretKey }}
{{ include "mediagate.secret" (dict "name" "MEDIAGATE_MEDIA_SECRET_KEY" "from" .) }}
{{- end }}
{{- range $name, $from := .root.Values.secrets.env }}
{{ include "mediagate.secret" (dict "name" $name "from" $from) }}
{{- end }}
{{- end }}

{{/* A Deployment of serve or worker; takes root, component and own. */}}
{{- define "mediagate.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "mediagate.name" .root }}-{{ .component }}
  labels:
    {{- include "mediagate.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if not .own.autoscaling.enabled }}
  replicas: {{ .own.replicas | int }}
  {{- end }}
  strategy:
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      {{- include "mediagate.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      labels:
        {{- include "mediagate.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      annotations:
        # Providers and models are reloaded from the file, the other settings need a restart.
        mediagate/settings: {{ .root.Values.settings | sha256sum }}
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      # Service links would become MEDIAGATE_… variables if the release is named mediagate.
      enableServiceLinks: false
      automountServiceAccountToken: false
      {{- with .root.Values.serviceAccountName }}
      serviceAccountName: {{ . }}
      {{- end }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ add .root.Values.drainSeconds .root.Values.graceSeconds 10 }}
      securityContext:
        {{- include "mediagate.podSecurity" . | nindent 8 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "mediagate.selector" .root | nindent 14 }}
              app.kubernetes.io/component: {{ .component }}
      containers:
        - name: mediagate
          image: {{ include "mediagate.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [{{ .component }}]
          env:
            {{- include "mediagate.env" . | nindent 12 }}
          ports:
            {{- if .listens }}
            - name: http
              containerPort: 8080
            {{- end }}
            - name: metrics
              containerPort: 9090
          # /healthz never asks the database: restarting a pod would not mend it.
          livenessProbe:
            httpGet: { path: /healthz, port: metrics }
            periodSeconds: 10
            timeoutSeconds: 3
            failureThreshold: 6
          # A ready gateway responds within 4.5 s, even while the database or the bucket does not.
          readinessProbe:
            httpGet: { path: /readyz, port: metrics }
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 2
          startupProbe:
            httpGet: { path: /healthz, port: metrics }
            periodSeconds: 1
            timeoutSeconds: 3
            failureThreshold: 60
          resources:
            {{- toYaml .own.resources | nindent 12 }}
          securityContext:
            {{- include "mediagate.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - name: settings
              mountPath: /etc/mediagate
              readOnly: true
            - name: spool
              mountPath: /data
            {{- if .root.Values.media.claim }}
            - name: media
              mountPath: /data/media
            {{- end }}
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: settings
          configMap:
            name: {{ include "mediagate.name" .root }}
        - name: spool
          emptyDir:
            sizeLimit: {{ .root.Values.spool.sizeLimit }}
        {{- with .root.Values.media.claim }}
        - name: media
          persistentVolumeClaim:
            claimName: {{ . }}
        {{- end }}
        - name: tmp
          emptyDir:
            sizeLimit: 1Gi
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}

{{/* One pod at a time may be moved away; takes root and component. */}}
{{- define "mediagate.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "mediagate.name" .root }}-{{ .component }}
  labels:
    {{- include "mediagate.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "mediagate.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Takes root, component and own. */}}
{{- define "mediagate.hpa" -}}
{{- if .own.autoscaling.enabled -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "mediagate.name" .root }}-{{ .component }}
  labels:
    {{- include "mediagate.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "mediagate.name" .root }}-{{ .component }}
  minReplicas: {{ .own.autoscaling.minReplicas | int }}
  maxReplicas: {{ .own.autoscaling.maxReplicas | int }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .own.autoscaling.cpuPercent | int }}
    {{- range .own.autoscaling.metrics }}
    - type: External
      external:
        metric:
          name: {{ .name }}
        target:
          type: AverageValue
          averageValue: {{ .averageValue | quote }}
    {{- end }}
  behavior:
    # A pod that stops ends its running engines, and other pods begin their work anew.
    scaleDown:
      stabilizationWindowSeconds: 300
      policies:
        - type: Pods
          value: 1
          periodSeconds: 60
{{- end }}
{{- end }}
