#include "apps/predict/predict_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "apps/cli/job_source.h"
#include "apps/predict/graph_predictor.h"
#include "apps/predict/later_samples.h"
#include "apps/predict/prediction_text.h"
#include "apps/predict/table_samples.h"
#include "apps/predict/text_continuation.h"
#include "apps/predict/trained_model.h"
#include "apps/report/result_text.h"
#include "base/counted.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/ids.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "models/data/text_data.h"
#include "models/data/vocabulary.h"
#include "models/runtime/model_input.h"

namespace soapstone::apps {
namespace {

constexpr char kPredictProgram[] = "soapstone predict";
constexpr size_t kUnknownShown = 5;

// What is said behind the work, beside the output: "359 samples: read in 0.0041 s, computed in
// 0.0020 s, 179500 a second". Of several batches also how fast it was once the first had made the
// kernels: ", 300000 after the first 256".
struct Tally {
  uint64_t count = 0;
  const char* what = "sample";
  Nanos read = 0;      // samples read and decoded
  Nanos computed = 0;  // what the model says of them
  uint64_t first = 0;  // of the count: the first batch
  Nanos first_computed = 0;
};

double SecondsOf(Nanos took) { return static_cast<double>(took) / static_cast<double>(kSecond); }

std::string TallyText(const Tally& tally) {
  const auto rate = [](uint64_t count, Nanos took) {
    return static_cast<double>(count) / std::max(SecondsOf(took), 1e-9);
  };
  std::string text = absl::StrFormat("%s: read in %.4f s, computed in %.4f s, %.0f a second",
                                     Counted(tally.count, tally.what), SecondsOf(tally.read),
                                     SecondsOf(tally.computed), rate(tally.count, tally.computed));
  if (tally.first > 0 && tally.first < tally.count) {
    absl::StrAppendFormat(&text, ", %.0f after the first %d",
                          rate(tally.count - tally.first, tally.computed - tally.first_computed),
                          tally.first);
  }
  return text;
}

Nanos Since(SteadyTime begin) { return absl::ToInt64Nanoseconds(SteadyNow() - begin); }

// The two classes as the file calls them, "-1" and "1" say: the labels up to 0 and those above,
// where either are all the same.
std::vector<std::string> SidesOf(const std::vector<float>& labels) {
  std::vector<std::string> names = {"0", "1"};
  bool seen[2] = {};
  float first[2] = {};
  bool same[2] = {true, true};
  for (const float label : labels) {
    const size_t side = label > 0 ? 1 : 0;
    if (!seen[side]) first[side] = label;
    seen[side] = true;
    same[side] &= label == first[side];
  }
  for (const size_t side : {0, 1}) {
    if (seen[side] && same[side]) names[side] = absl::StrCat(first[side]);
  }
  return names;
}

class Predictor {
 public:
  Predictor(const PredictFlags& flags, TrainedModel model)
      : flags_(flags), model_(std::move(model)) {}

  absl::StatusOr<std::string> Run() {
    if (flags_.text.has_value()) return Continue();
    if (flags_.format == "text") {
      return absl::InvalidArgumentError("--format=text is of --text; of samples csv or json");
    }
    if (!model_.of_tables()) return PredictTensors();
    if (flags_.model.data_path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(flags_.images_path, ": ", Model(),
                                                     " takes no images; --data names its samples"));
    }
    return PredictTables();
  }
  const Tally& tally() const { return tally_; }

 private:
  // "lenet5 of FILE"
  std::string Model() const { return absl::StrCat(model_.config().model(), " of ", model_.name()); }

  absl::StatusOr<std::string> PredictTables() {
    const std::string& path = flags_.model.data_path;
    const SteadyTime begin = SteadyNow();
    SOAP_ASSIGN_OR_RETURN(const TableSamples samples, LoadTableSamples(model_, path));
    tally_.read = Since(begin);
    const SteadyTime computing = SteadyNow();
    SOAP_ASSIGN_OR_RETURN(
        const TableScores scores,
        ScoreTableSamples(model_, samples, flags_.batch > 0 ? flags_.batch : 256));
    tally_.computed = Since(computing);
    tally_.count = scores.scores.size();
    PredictionText text({.json = flags_.format == "json",
                         .labels = true,
                         .top = flags_.top,
                         .probabilities = flags_.probabilities,
                         .class_names = SidesOf(scores.labels),
                         .classes = scores.classifier ? 2 : 0});
    for (size_t i = 0; i < scores.scores.size(); ++i) {
      const float score = scores.scores[i];
      const float probabilities[] = {1 - score, score};
      PredictionText::Sample sample = {.label = absl::StrCat(scores.labels[i]),
                                       .value = static_cast<double>(score)};
      if (scores.classifier) sample.probabilities = probabilities;
      text.Add(sample);
    }
    return text.Finish();
  }

  absl::StatusOr<std::string> PredictTensors() {
    SOAP_ASSIGN_OR_RETURN(const models::ModelReading reading, model_.Reading());
    SOAP_ASSIGN_OR_RETURN(const models::Graph graph, model_.BuildGraph(reading));
    if (reading.length > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Model(),
                       model_.of_text() ? " is a language model: --text gives it a text to continue"
                                        : " translates, which is not done yet",
                       "; `soapstone evaluate --data` says how well it does"));
    }
    SOAP_ASSIGN_OR_RETURN(const compute::GivenValues values, model_.Values(graph));
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<compute::Backend> backend, model_.MakeBackend());
    SOAP_ASSIGN_OR_RETURN(GraphPredictor predictor,
                          GraphPredictor::Create(graph, values, std::move(backend)));
    const bool images = !flags_.images_path.empty();
    const SteadyTime begin = SteadyNow();
    SOAP_ASSIGN_OR_RETURN(
        const LaterSamples samples,
        LoadLaterSamples(model_, reading,
                         {.path = images ? flags_.images_path : flags_.model.data_path,
                          .labels_path = flags_.model.labels_path,
                          .images = images,
                          .scale = flags_.scale}));
    SOAP_RETURN_IF_ERROR(models::CheckFields(graph, samples.data));
    SayNotes(kPredictProgram, samples.notes);
    tally_.read = Since(begin);
    return PredictSamples(samples, reading, flags_.batch > 0 ? flags_.batch : BatchOf(graph),
                          &predictor);
  }

  absl::StatusOr<std::string> PredictSamples(const LaterSamples& samples,
                                             const models::ModelReading& reading, int64_t batch,
                                             GraphPredictor* predictor) {
    PredictionText text({.json = flags_.format == "json",
                         .files = !samples.names.empty(),
                         .labels = samples.labels,
                         .top = flags_.top,
                         .probabilities = flags_.probabilities,
                         .class_names = reading.class_names,
                         .classes = predictor->classes()});
    const auto classes = static_cast<size_t>(predictor->classes());
    const uint64_t all = samples.data.size();
    models::MiniBatch feed;
    for (const std::vector<uint64_t>& part : EvenBatches(all, batch)) {
      const SteadyTime reads = SteadyNow();
      samples.data.Gather(part, &feed);
      const SteadyTime computes = SteadyNow();
      tally_.read += absl::ToInt64Nanoseconds(computes - reads);
      SOAP_ASSIGN_OR_RETURN(std::vector<float> logits, predictor->Logits(feed));
      for (size_t i = 0; i < part.size(); ++i) {
        Softmax(absl::MakeSpan(logits).subspan(i * classes, classes));
      }
      tally_.computed += Since(computes);
      if (tally_.first == 0) {
        tally_.first = part.size();
        tally_.first_computed = tally_.computed;
      }
      for (size_t i = 0; i < part.size() && tally_.count < all; ++i, ++tally_.count) {
        PredictionText::Sample sample = {
            .probabilities = absl::MakeConstSpan(logits).subspan(i * classes, classes)};
        if (!samples.names.empty()) sample.name = samples.names[part[i]];
        if (samples.labels) sample.label = text.NameOf(feed.Ints(feed.fields.size() - 1)[i]);
        text.Add(sample);
      }
    }
    return text.Finish();
  }

  absl::StatusOr<std::string> Continue() {
    if (!model_.of_text()) {
      return absl::InvalidArgumentError(absl::StrCat(Model(), " was trained on data of format ",
                                                     model_.config().data().format(),
                                                     ", and continues no text"));
    }
    SOAP_ASSIGN_OR_RETURN(const models::ModelReading reading, model_.Reading());
    std::optional<models::Vocabulary> vocabulary;
    if (!reading.vocabularies.empty()) {
      SOAP_ASSIGN_OR_RETURN(vocabulary, models::Vocabulary::OfWords(reading.vocabularies[0]));
    }
    const models::Vocabulary* words = vocabulary.has_value() ? &*vocabulary : nullptr;
    SOAP_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptOf(words));
    SOAP_ASSIGN_OR_RETURN(const models::Graph graph, model_.BuildGraph(reading));
    SOAP_RETURN_IF_ERROR(CheckLanguageModel(graph, reading));
    SOAP_RETURN_IF_ERROR(CheckWords(words, reading));
    SOAP_ASSIGN_OR_RETURN(const compute::GivenValues values, model_.Values(graph));
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<compute::Backend> backend, model_.MakeBackend());
    SOAP_ASSIGN_OR_RETURN(GraphPredictor predictor,
                          GraphPredictor::Create(graph, values, std::move(backend)));
    const SteadyTime begin = SteadyNow();
    SOAP_ASSIGN_OR_RETURN(const std::vector<DrawnToken> drawn,
                          ContinueText(prompt, reading.length,
                                       {.length = flags_.length,
                                        .temperature = flags_.temperature,
                                        .top_k = flags_.top_k,
                                        .seed = flags_.seed},
                                       &predictor));
    tally_ = {.count = drawn.size(), .what = "token", .computed = Since(begin)};
    return ContinuationText(std::move(prompt), drawn, words);
  }

  absl::StatusOr<std::vector<int32_t>> PromptOf(const models::Vocabulary* words) const {
    std::vector<std::string> unknown;
    std::vector<int32_t> prompt = models::TokensOf(*flags_.text, words, &unknown);
    if (prompt.empty()) return absl::InvalidArgumentError("--text: there is nothing to continue");
    if (unknown.empty() || flags_.unknown_words) return prompt;
    const size_t all = unknown.size();
    unknown.resize(std::min(all, kUnknownShown));
    return absl::InvalidArgumentError(
        absl::StrCat("--text: the vocabulary of ", Model(), " lacks ", Counted(all, "word"), ": ",
                     PlainText(absl::StrJoin(unknown, ", ")), all > kUnknownShown ? ", .." : "",
                     "; --unknown_words reads them as <unk>"));
  }

  // A word, or a byte, for each row of the embedding and for each logit.
  absl::Status CheckWords(const models::Vocabulary* words,
                          const models::ModelReading& reading) const {
    constexpr int64_t kBytes = 256;
    const int64_t known = words == nullptr ? kBytes : words->size();
    if (known == reading.input.vocabulary && known == reading.input.classes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Model(), " knows ",
        Counted(static_cast<uint64_t>(known), words == nullptr ? "byte" : "word"),
        ", and computes with ", reading.input.vocabulary, " and ", reading.input.classes));
  }

  // One input of tokens, and logits at each of them.
  absl::Status CheckLanguageModel(const models::Graph& graph,
                                  const models::ModelReading& reading) const {
    const int64_t classes = graph.classes();
    const bool fits = graph.inputs().size() == 2 && reading.length > 0 &&
                      graph.tensor(graph.inputs()[0]).elements() == reading.length &&
                      graph.tensor(graph.logits()).elements() == reading.length * classes &&
                      classes == reading.input.classes;
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Model(), " has no logits for each of ", reading.length, " tokens"));
  }

  std::string ContinuationText(std::vector<int32_t> tokens, const std::vector<DrawnToken>& drawn,
                               const models::Vocabulary* words) const {
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    const std::string prompt = models::TextOfTokens(tokens, words);
    nlohmann::ordered_json json = {{"prompt", prompt}};
    std::string csv = "token,text,probability\n";
    for (const DrawnToken& token : drawn) {
      tokens.push_back(token.token);
      const std::string text = models::TextOfTokens({token.token}, words);
      json["tokens"].push_back(
          {{"token", token.token}, {"text", text}, {"probability", token.probability}});
      // The text as JSON has it: of one line, whatever the token.
      const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, kReplace);
      absl::StrAppend(&csv, token.token, ",", CsvCell(quoted.substr(1, quoted.size() - 2)), ",",
                      absl::StrFormat("%.7g", token.probability), "\n");
    }
    const std::string text = models::TextOfTokens(tokens, words);
    if (flags_.format == "csv") return csv;
    if (flags_.format != "json") return text + "\n";
    json["text"] = text;
    return json.dump(2, ' ', false, kReplace) + "\n";
  }

  const PredictFlags& flags_;
  const TrainedModel model_;
  Tally tally_;
};

absl::Status RunPrediction(const PredictFlags& flags) {
  SOAP_RETURN_IF_ERROR(CheckOutputApart(flags.output, flags.model, flags.images_path));
  SOAP_ASSIGN_OR_RETURN(TrainedModel model, TrainedModel::Open(flags.model));
  SOAP_RETURN_IF_ERROR(model.CheckMeant(flags.model, /*samples=*/true));
  Predictor predictor(flags, std::move(model));
  SOAP_ASSIGN_OR_RETURN(const std::string text, predictor.Run());
  if (!flags.output.empty()) {
    SOAP_RETURN_IF_ERROR(WriteWholeFile(flags.output, text));
  } else {
    // A terminal obeys what a model may say.
    std::cout << (isatty(STDOUT_FILENO) == 1 ? PlainLines(text) : text) << std::flush;
  }
  SayNotes(kPredictProgram, {TallyText(predictor.tally())});
  return absl::OkStatus();
}

}  // namespace

int Predict(const PredictFlags& flags) {
  const absl::Status done = RunPrediction(flags);
  if (done.ok()) return kExitOk;
  // Whatever the disk says, it is of what the user names.
  return SayConfigError(kPredictProgram, absl::InvalidArgumentError(done.message()));
}

}  // namespace soapstone::apps
