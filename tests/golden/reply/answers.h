/* Answers and what they say. */
struct answer {
    const char *row, *template, *prompt, *text;
    const char *content, *reasoning, *calls; /* a line each: NAME ARGUMENTS */
    bool no_tools;
};
#define HERMES "hermes", "<tool_call></tool_call></think>"
#define XML "qwen-xml", "<tool_call><function=<parameter=</think>"
#define GLM "glm", "<tool_call><arg_key></think>"
#define MINIMAX "minimax", "<minimax:tool_call></think>"
#define LLAMA "llama3", "<|start_header_id|>\"parameters\": dictionary"
#define MISTRAL "mistral", "[TOOL_CALLS][/THINK]"
#define DEEPSEEK "deepseek", "<｜tool▁calls▁begin｜></think>"
#define KIMI "kimi", "<|tool_calls_section_begin|></think>"
#define HARMONY "harmony", "<|channel|><|message|>"
#define GEMMA "gemma", "<|tool_call><tool_call|><channel|>"
#define COHERE "cohere", "<|START_ACTION|><|END_THINKING|>"
static const struct answer answers[] = {
    /* --- plain --- */
    {"plain", "", NULL, "Hello <think>x</think>{\"name\": 1}\n",
     "Hello <think>x</think>{\"name\": 1}\n", "", "", false},
    {"plain", "</think>", NULL, "\n<think>\n a\n b \n</think>\n\n x\ny \n", "x\ny \n", "a\n b", "",
     false},
    {"plain", "</think>", "<think>\n", "\na b", "", "a b", "", false},
    {"plain", "</think>", "<think>\n\n</think>\n\n", "a </think> b", "a </think> b", "", "", false},
    {"plain", "</think>", NULL, "a <think> b", "a <think> b", "", "", false},
    {"plain", "", NULL, " a <|endoftext|>\n", " a ", "", "", false},
    {"plain", "", NULL, "a <|endoftext|> b<|endoftext|>", "a <|endoftext|> b", "", "", false},
    {"plain", "[/THINK]", NULL, "[THINK]a[/THINK]b", "b", "a", "", false},
    /* --- JSON in marks --- */
    {HERMES, "<think>\n",
     "hm\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"city\": "
     "\"R\\u00f4m</tool_call>e\", \"n\": "
     "12345678901234567}}\n</tool_call>\n<tool_call>\n{\"arguments\": {}, \"name\": "
     "\"b\"}\n</tool_call><|im_end|>\n",
     "I look.", "hm", "look {\"city\": \"R\\u00f4m</tool_call>e\", \"n\": 12345678901234567}\nb {}",
     false},
    {HERMES, NULL,
     "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call> so\n", "so\n", "",
     "a {\"x\": 1}", false},
    {HERMES, NULL, "x\n<tool_call>{\"name\": \"a\"}</tool_call>\ny", "x\n\ny", "", "a {}", false},
    {HERMES, NULL, "<tool_call>{\"name\": \"a\"", "<tool_call>{\"name\": \"a\"", "", "", false},
    {HERMES, NULL, "<tool_call>{\"name\": \"a\"}", "", "", "a {}", false},
    {HERMES, NULL, "<tool_call>{\"name\": 3}</tool_call>", "<tool_call>{\"name\": 3}</tool_call>",
     "", "", false},
    {HERMES, NULL, "<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>",
     "<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>", "", "", false},
    {HERMES, NULL, "<tool_call>{\"name\": \"a\", \"arguments\": {]}}</tool_call>",
     "<tool_call>{\"name\": \"a\", \"arguments\": {]}}</tool_call>", "", "", false},
    {HERMES, NULL, "<tool_call>x <tool_call>{\"name\": \"a\"}</tool_call>", "<tool_call>x", "",
     "a {}", false},
    {HERMES, NULL, "<tool_call>{\"name\": \"a\"}</tool_call>",
     "<tool_call>{\"name\": \"a\"}</tool_call>", "", "", true},
    {"tool_calls", "<tool_calls>", NULL,
     "t\n<tool_calls>[{\"name\": \"a\", \"arguments\": {\"k\": [{}]}}, {\"name\": \"b\", "
     "\"arguments\": {}}]</tool_calls>",
     "t", "", "a {\"k\": [{}]}\nb {}", false},
    {"tool_calls", "<tool_calls>", NULL,
     "<tool_calls>\n{\"name\": \"a\", \"arguments\": {}}\n{\"name\": \"b\", \"arguments\": "
     "{}}\n</tool_calls>",
     "", "", "a {}\nb {}", false},
    {"tool_calls", "<tool_calls>", NULL, "<tool_calls>[]</tool_calls>",
     "<tool_calls>[]</tool_calls>", "", "", false},
    {"granite", "<|tool_call|>", NULL, "<|tool_call|>[{\"name\": \"a\", \"arguments\": {}}]", "",
     "", "a {}", false},
    {COHERE, NULL,
     "<|START_THINKING|>I see.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"a\", \"parameters\": {\"x\": 1}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
     "", "I see.", "a {\"x\": 1}", false},
    {COHERE, NULL, "<|START_RESPONSE|>Hello<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "Hello", "", "",
     false},
    {"firefunction", "functools[", NULL, " functools[{\"name\": \"a\", \"arguments\": {}}]", "", "",
     "a {}", false},
    {"firefunction", "functools[", NULL, "from functools import x", "from functools import x", "",
     "", false},
    /* --- fields --- */
    {XML, "<think>\n",
     "why\n</think>\n\n<tool_call>\n<function=look>\n<parameter=city>\nSan <b>\n "
     "Jose\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=metric>\nTrue\n</"
     "parameter>\n<parameter=list>\n[1, \"a\"]\n</parameter>\n</function>\n</tool_call><|im_end|>",
     "", "why",
     "look {\"city\": \"San <b>\\n Jose\", \"days\": 3, \"metric\": true, \"list\": [1, \"a\"]}",
     false},
    {XML, NULL,
     "<tool_call><function=look><parameter=city>12</parameter><parameter=days>many</"
     "parameter><parameter=maybe>null</parameter><parameter=some>2.50</parameter><parameter=new>7</"
     "parameter></function></tool_call>",
     "", "",
     "look {\"city\": \"12\", \"days\": \"many\", \"maybe\": null, \"some\": 2.50, \"new\": \"7\"}",
     false},
    {XML, NULL,
     "<tool_call>\n<function=b>\n</function>\n</tool_call>\n<tool_call>\n<function=c>\n</"
     "function>\n</tool_call>",
     "", "", "b {}\nc {}", false},
    {XML, NULL, "<tool_call>\n<function=b>\n<parameter=x>\n1\n",
     "<tool_call>\n<function=b>\n<parameter=x>\n1\n", "", "", false},
    {XML, NULL,
     "<tool_call>\n<function=b>\n<parameter=x>1</parameter><parameter=x>2</parameter></function></"
     "tool_call>",
     "<tool_call>\n<function=b>\n<parameter=x>1</parameter><parameter=x>2</parameter></function></"
     "tool_call>",
     "", "", false},
    {MINIMAX, NULL,
     "ok\n<minimax:tool_call>\n<invoke name=\"look\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke "
     "name=\"b\">\n</invoke>\n</minimax:tool_call>",
     "ok", "", "look {\"city\": \"Oslo\", \"days\": 2}\nb {}", false},
    {GLM, NULL,
     "\n<think>hm</think>\nok\n<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Oslo\n</"
     "arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call><|observation|>",
     "ok", "hm", "look {\"city\": \"Oslo\\n\", \"days\": 2}", false},
    {GLM, NULL, "<tool_call>look<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>", "",
     "", "look {\"city\": \"Oslo\"}", false},
    /* --- Llama 3 --- */
    {LLAMA, NULL, "{\"name\": \"look\", \"parameters\": {\"city\": \"}\\\"\"}}<|eot_id|>", "", "",
     "look {\"city\": \"}\\\"\"}", false},
    {LLAMA, NULL,
     "<|python_tag|>{\"type\": \"function\", \"name\": \"a\", \"parameters\": {}}; {\"type\": "
     "\"function\", \"function\": {\"name\": \"b\", \"parameters\": {\"x\": 1}}}<|eom_id|>",
     "", "", "a {}\nb {\"x\": 1}", false},
    {LLAMA, NULL, "{\"title\": \"x\", \"name\": \"y\"}", "{\"title\": \"x\", \"name\": \"y\"}", "",
     "", false},
    {LLAMA, NULL, "I say {\"name\": \"a\", \"parameters\": {}}",
     "I say {\"name\": \"a\", \"parameters\": {}}", "", "", false},
    {LLAMA, NULL, "{\"name\": \"a\", \"parameters\": {}}", "{\"name\": \"a\", \"parameters\": {}}",
     "", "", true},
    {LLAMA, NULL, "<|python_tag|>look.call(city=\"x\")", "<|python_tag|>look.call(city=\"x\")", "",
     "", false},
    /* --- Mistral --- */
    {MISTRAL, NULL,
     "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {\"x\": \"]\"}}, {\"name\": \"b\", "
     "\"arguments\": {}}]</s>",
     "", "", "a {\"x\": \"]\"}\nb {}", false},
    {MISTRAL, NULL,
     "[THINK]hm[/THINK]so[TOOL_CALLS]a[ARGS]{\"x\": 1}[TOOL_CALLS]b[CALL_ID]abcdefghi[ARGS]{}</s>",
     "so", "hm", "a {\"x\": 1}\nb {}", false},
    {MISTRAL, NULL, "[TOOL_CALLS]a{\"x\": 1}", "", "", "a {\"x\": 1}", false},
    {MISTRAL, NULL, "[TOOL_CALLS]a b", "[TOOL_CALLS]a b", "", "", false},
    /* --- Gemma 4 --- */
    {GEMMA, NULL,
     "<|channel>thought\nhm\n<channel|>ok<|tool_call>call:look{city:<|\"|>a\"}\n<|\"|>,days:3,list:"
     "[1,-2.5e3,{k:null,<|\"|>x "
     "y<|\"|>:[]}],metric:true}<tool_call|><|tool_call>call:b{}<tool_call|><turn|>",
     "ok", "hm",
     "look {\"city\": \"a\\\"}\\n\", \"days\": 3, \"list\": [1, -2.5e3, {\"k\": null, \"x y\": "
     "[]}], \"metric\": true}\nb {}",
     false},
    {GEMMA, NULL, "<|tool_call>call:b{x:1x}<tool_call|>", "<|tool_call>call:b{x:1x}<tool_call|>",
     "", "", false},
    {GEMMA, NULL, "<|tool_call>call:b{x:1,x:2}<tool_call|>",
     "", "", "b {\"x\": 1, \"x\": 2}", false},
    {GEMMA, NULL, "<|tool_call>call:b{x:<|\"|>1}<tool_call|>",
     "<|tool_call>call:b{x:<|\"|>1}<tool_call|>", "", "", false},
    {GEMMA, NULL, "<|tool_call>call:b{x:[1}<tool_call|>", "<|tool_call>call:b{x:[1}<tool_call|>",
     "", "", false},
    /* --- DeepSeek, Kimi --- */
    {DEEPSEEK, "<think>\n",
     "hm</"
     "think>\n\nok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n```json\n{"
     "\"x\": "
     "\"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>b\n```json\n{}"
     "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
     "ok", "hm", "a {\"x\": \"```\"}\nb {}", false},
    {DEEPSEEK, "<think></think>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{\"x\": "
     "1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", "", "a {\"x\": 1}", false},
    {DEEPSEEK, NULL, "<｜tool▁calls▁begin｜>x", "<｜tool▁calls▁begin｜>x", "", "", false},
    {KIMI, NULL,
     "<think>t</think>go "
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{"
     "\"city\": "
     "\"x\"}<|tool_call_end|><|tool_call_begin|>functions.b:1<|tool_call_argument_begin|>{}<|tool_"
     "call_end|><|tool_calls_section_end|><|im_end|>",
     "go", "t", "look {\"city\": \"x\"}\nb {}", false},
    {KIMI, NULL,
     "Go. <|tool_calls_section_begin|><|tool_call_begin|>look:0 "
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "Go.", "", "look {}", false},
    /* --- what vLLM's tests of its parsers have (tests/tool_parsers), where its answer is the same
       --- */
    {LLAMA, NULL, "{\"name\": \"toolWithoutParams\"}", "{\"name\": \"toolWithoutParams\"}", "", "",
     false},
    {LLAMA, NULL, "{\"parameters\": {}}", "{\"parameters\": {}}", "", "", false},
    {LLAMA, NULL, "{\"name\": \"invalidTool\", \"parameters\": {invalid json}",
     "{\"name\": \"invalidTool\", \"parameters\": {invalid json}", "", "", false},
    {LLAMA, NULL, "{\"arguments\": {\"query\": \"test\"}, \"name\": \"searchTool\"}", "", "",
     "searchTool {\"query\": \"test\"}", false},
    {LLAMA, NULL,
     "{\"name\": \"searchTool\", \"parameters\": {\"query\": \"test\"}} The arguments I passed "
     "were {\"query\": \"test\"}",
     "The arguments I passed were {\"query\": \"test\"}", "", "searchTool {\"query\": \"test\"}",
     false},
    {LLAMA, NULL,
     "{\"name\": \"a\", \"parameters\": {\"q\": \"1\"}};\n{\"name\": \"b\", \"parameters\": "
     "{}}\n{\"name\": \"c\", \"parameters\": {}}",
     "", "", "a {\"q\": \"1\"}\nb {}\nc {}", false},
    {HERMES, NULL, "<tool_call>\n{\"name\": \"final_answer\", \"arguments\": {\"trigger\": true}}",
     "", "", "final_answer {\"trigger\": true}", false},
    {HERMES, NULL, "<tool_call>\n{\"name\": \"final_answer\", \"arguments\": {\"trigger\": true}",
     "<tool_call>\n{\"name\": \"final_answer\", \"arguments\": {\"trigger\": true}", "", "", false},
    {HERMES, NULL,
     "<tool_call>\n{\"name\": \"get_db_config\", \"arguments\": \"{\\\"param\\\": "
     "\\\"max_connections\\\"}\"}\n</tool_call>",
     "", "", "get_db_config {\"param\": \"max_connections\"}", false},
    {XML, NULL, "<tool_call><function=func>", "<tool_call><function=func>", "", "", false},
    {XML, NULL, "<tool_call><function=></function></tool_call>",
     "<tool_call><function=></function></tool_call>", "", "", false},
    {XML, NULL,
     "Sure.\n<function=look>\n<parameter=city>\nDallas\n</parameter>\n</function>\n</tool_call> so",
     "Sure.\n so", "", "look {\"city\": \"Dallas\"}", false},
    {XML, NULL, "<function=look>\n<parameter=city>\nDallas\n</parameter>\n</function> then", "then",
     "", "look {\"city\": \"Dallas\"}", false},
    {XML, NULL, "<tool_call>\n<function=look>\n<parameter=city>\nx\n</parameter>\n</function>\n",
     "", "", "look {\"city\": \"x\"}", false},
    {GLM, NULL, "<tool_call>look<arg_key>city</arg_key><arg_value>Oslo</arg_value>",
     "<tool_call>look<arg_key>city</arg_key><arg_value>Oslo</arg_value>", "", "", false},
    {MISTRAL, NULL,
     "[TOOL_CALLS] [{\"arguments\":{\"name\": \"John Doe\"}, \"name\": \"get_age\"}]", "", "",
     "get_age {\"name\": \"John Doe\"}", false},
    {MISTRAL, NULL, "[TOOL_CALLS]add{\"a\": 3.5, \"b\": 4}[TOOL_CALLS]multiply{\"a\": 3, \"b\": 6}",
     "", "", "add {\"a\": 3.5, \"b\": 4}\nmultiply {\"a\": 3, \"b\": 6}", false},
    {HARMONY, NULL,
     "<|start|>assistant<|channel|>commentary to=functions.no_args "
     "<|constrain|>json<|message|><|call|>",
     "", "", "no_args {}", false},
    {HARMONY, NULL,
     "<|start|>assistant<|channel|>commentary to=functions.no_args <|constrain|>json<|message|>",
     "", "", "no_args {}", false},
    /* --- harmony --- */
    {HARMONY, "<|start|>assistant",
     "<|channel|>analysis<|message|>hm "
     "\n<|end|><|start|>assistant<|channel|>final<|message|>Hello.\n<|return|>",
     "Hello.\n", "hm \n", "", false},
    {HARMONY, NULL,
     "<|channel|>commentary<|message|>I look. <|end|><|start|>assistant<|channel|>commentary "
     "to=functions.look <|constrain|>json<|message|>{\"city\": \"x\"}<|call|>",
     "I look. ", "", "look {\"city\": \"x\"}", false},
    {HARMONY, NULL, " to=functions.b<|channel|>commentary json<|message|>{}", "", "", "b {}",
     false},
    {HARMONY, NULL,
     "<|channel|>analysis to=functions.b code<|message|>{\"a\": "
     "1}<|call|><|start|>assistant<|channel|>final<|message|>x",
     "x", "", "b {\"a\": 1}", false},
    {HARMONY, NULL, "<|channel|>commentary to=functions.b json<|message|>{\"a\": }<|call|>",
     "<|channel|>commentary to=functions.b json<|message|>{\"a\": }", "", "", false},
    {HARMONY, NULL, "<|start|>assistant to=functions.b json<|message|>[]<|call|>",
     "<|start|>assistant to=functions.b json<|message|>[]", "", "", false},
    {HARMONY, NULL, "No channel <|message|>", "No channel <|message|>", "", "", false},
    {HARMONY, NULL, "<|start|>", "<|start|>", "", "", false},
    {HARMONY, "<|start|>assistant<|channel|>final<|message|>", "He<|end|> there<|return|>",
     "He there", "", "", false},
    {HARMONY, NULL, "<|channel|>commentary to=functions.b<|message|>{}<|call|>", "{}", "", "",
     true},
};
