"""The names of Mastra's three documents, by section of docs/mastra-map.md; `a.b` is `b` inside `a`."""

NAMES = {
    "The agent: `Agent(...)`": """
    id name description metadata instructions model agents tools hooks hooks.beforeToolCall hooks.afterToolCall
    transform workflows defaultOptions defaultGenerateOptionsLegacy defaultStreamOptionsLegacy mastra scorers memory
    notifications notifications.deliveryPolicy voice inputProcessors outputProcessors maxProcessorRetries
    requestContextSchema editor durable
    """,
    "Instructions and messages": """
    role content providerOptions
    """,
    "Hooks of tools: what they get and return": """
    toolName input context metadata metadata.agentId metadata.agentName output error proceed return.output
    """,
    "Verbs of an agent": """
    generate generate.messages generate.options stream generateLegacy streamLegacy streamUntilIdle
    approveToolCallGenerate declineToolCallGenerate getMemory sendMessage queueMessage sendSignal sendStateSignal
    sendNotificationSignal subscribeToThread
    """,
    "Options of a call": """
    maxSteps stopWhen onIterationComplete isTaskComplete delegation scorers returnScorerData onChunk onError onAbort
    onSuspended activeTools abortSignal prepareStep requireToolApproval autoResumeSuspendedTools toolCallConcurrency
    context structuredOutput outputProcessors inputProcessors maxProcessorRetries instructions system output memory
    onFinish onStepFinish telemetry modelSettings toolChoice toolsets clientTools hooks savePerStep providerOptions
    runId requestContext tracingContext tracingOptions versions includeRawChunks transform untilIdle
    untilIdle.maxIdleMs disableBackgroundTasks actor
    """,
    "`on_iteration_complete`: what it gets and returns": """
    context.iteration context.maxIterations context.text context.isFinal context.finishReason context.toolCalls
    context.messages messageList return.continue return.feedback
    """,
    "`is_task_complete` and `scorers`": """
    isTaskComplete.scorers isTaskComplete.strategy isTaskComplete.onComplete isTaskComplete.parallel
    isTaskComplete.timeout isTaskComplete.suppressFeedback isTaskComplete.scorerNames scorers.scorer scorers.sampling
    scorers.sampling.type scorers.sampling.rate
    """,
    "`delegation` and `versions`": """
    delegation.onDelegationStart delegation.onDelegationComplete delegation.messageFilter versions.agents
    versions.agents.versionId versions.agents.status
    """,
    "`structured_output`": """
    schema model errorStrategy fallbackValue instructions jsonPromptInjection logger providerOptions
    """,
    "`memory` of a call": """
    memory.thread memory.thread.id memory.thread.title memory.thread.metadata memory.resource memory.threadId
    memory.resourceId memory.options memory.options.lastMessages memory.options.readOnly memory.options.semanticRecall
    memory.options.workingMemory memory.options.filterIncompleteToolCalls memory.options.generateTitle
    memory.onTitleGenerated
    """,
    "`telemetry`, `tracing_options`, `tracing_context`": """
    isEnabled recordInputs recordOutputs functionId metadata requestContextKeys traceId parentSpanId tags currentSpan
    """,
    "`model_settings`": """
    temperature maxOutputTokens maxRetries topP topK presencePenalty frequencyPenalty stopSequences headers
    """,
    "`tool_choice` and `provider_options`": """
    'auto' 'none' 'required' toolChoice.type toolChoice.toolName openai anthropic google [providerName]
    """,
    "The result of `generate`": """
    text object toolCalls toolResults usage steps finishReason response request warnings providerMetadata reasoning
    reasoningText sources files suspendPayload runId traceId spanId messages rememberedMessages error tripwire
    scoringData
    """,
    "Calls, results and steps in it": """
    toolCalls.type toolCalls.runId toolCalls.from toolCalls.payload toolCalls.payload.toolCallId
    toolCalls.payload.toolName toolCalls.payload.args toolCalls.payload.providerExecuted toolResults.type
    toolResults.runId toolResults.from toolResults.payload toolResults.payload.toolCallId toolResults.payload.toolName
    toolResults.payload.result toolResults.payload.isError steps.text steps.toolCalls steps.toolResults
    steps.finishReason steps.usage steps.request steps.response response.id response.timestamp response.modelId
    response.headers response.messages response.uiMessages request.body suspendPayload.toolCallId
    suspendPayload.toolName suspendPayload.args
    """,
    "Durable agents: making one": """
    createDurableAgent createDurableAgent.agent createDurableAgent.id createDurableAgent.name createDurableAgent.cache
    createDurableAgent.pubsub createDurableAgent.maxSteps DurableAgent DurableAgent.agent DurableAgent.id
    DurableAgent.name DurableAgent.cache DurableAgent.pubsub DurableAgent.maxSteps DurableAgent.cleanupTimeoutMs
    createEventedAgent createEventedAgent.agent createEventedAgent.cache createEventedAgent.pubsub
    createEventedAgent.maxSteps EventedAgent createInngestAgent Mastra Mastra.agents getAgent MastraServerCache
    InMemoryServerCache PubSub EventEmitterPubSub
    """,
    "Durable agents: verbs": """
    stream resume resume.runId resume.resumeData observe observe.runId observe.offset observe.idleTimeoutMs
    observe.isAlive prepare prepare.runId prepare.messageId prepare.workflowInput prepare.registryEntry
    prepare.threadId prepare.resourceId recoverActiveRuns recoverActiveRuns.runId recoverActiveRuns.limit
    recoverActiveRuns.createdBefore recovered recovered.runId recovered.status recovered.error succeeded failed
    recover recover.runId
    """,
    "Durable agents: what `stream`, `resume`, `observe` and `recover` return": """
    output fullStream runId threadId resourceId cleanup abort getFullOutput consumeStream
    """,
    "Threads and signals": """
    sendMessage.message sendMessage.options.runId sendMessage.options.resourceId sendMessage.options.threadId
    sendMessage.options.ifActive sendMessage.options.ifIdle sendMessage.options.ifActive.behavior
    sendMessage.options.ifActive.attributes sendMessage.options.ifIdle.behavior
    sendMessage.options.ifIdle.streamOptions sendMessage.options.ifIdle.attributes sendSignal.signal
    sendSignal.options.runId sendSignal.options.resourceId sendSignal.options.threadId sendSignal.options.ifActive
    sendSignal.options.ifIdle sendSignal.options.ifActive.behavior sendSignal.options.ifActive.attributes
    sendSignal.options.ifIdle.behavior sendSignal.options.ifIdle.streamOptions sendSignal.options.ifIdle.attributes
    queueMessage.message queueMessage.options message.contents message.attributes message.metadata
    message.providerOptions signal.type signal.tagName signal.contents signal.attributes signal.metadata
    signal.providerOptions state sendStateSignal.options state.id state.cacheKey state.contents state.mode state.value
    state.delta state.attributes state.metadata state.tagName notification notification.source notification.kind
    notification.summary notification.priority notification.payload notification.dedupeKey notification.coalesceKey
    notification.attributes notification.metadata sendNotificationSignal.options.resourceId
    sendNotificationSignal.options.threadId sendNotificationSignal.options.ifIdle
    sendNotificationSignal.options.ifIdle.streamOptions subscribeToThread.options.resourceId
    subscribeToThread.options.threadId accepted signal persisted skipped reason record decision sent.runId
    accepted.action accepted.runId accepted.output subscription.stream activeRunId subscription.abort unsubscribe
    deliveryPolicy.priorities deliveryPolicy.sources deliveryPolicy.decide decide.action decide.summaryAt
    decide.deliverAt
    """,
    "`editor`": """
    editor.instructions editor.tools editor.tools.description
    """,
    "Rules for payloads: `transform`": """
    transformToolPayload targets
    """,
    "Tools and others": """
    RequestContext AbortSignal createWorkflow Workspace MastraEditor CompositeVoice createTool createTool.transform
    resumeSchema
    """,
    "Parts of messages": """
    TextPart.type TextPart.text ImagePart.image ImagePart.mimeType
    """,
}
