// The request bodies, as the published clients type them.
import type { MessageCreateParamsNonStreaming } from "@anthropic-ai/sdk/resources/messages";
import type { GenerateContentParameters } from "@google/genai";
import type { ChatCompletionCreateParamsNonStreaming } from "openai/resources/chat/completions";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";

export type OpenAIChat = ChatCompletionCreateParamsNonStreaming;
export type OpenAIResponses = ResponseCreateParamsNonStreaming;
export type Anthropic = MessageCreateParamsNonStreaming;
export type Gemini = GenerateContentParameters;
